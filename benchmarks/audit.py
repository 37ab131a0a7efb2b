"""Measures how well `pyrite audit` finds relevant documents among negatives, by hiding known ones.

    python -m benchmarks.audit FOLDER

For each training query of a BEIR folder, some relevant documents are hidden from the judgements. A study is run on
the rest, and its negatives are audited many times, each time with another sample and the hidden judgements as
answers. Prints for each method the true share of relevant negatives, the mean, error and coverage of its estimates,
and the study's measure before and after the labels are repaired by one audit and by all hidden judgements.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from pyrite.analysis.reports.audit_rates import rates_figure
from pyrite.analysis.reports.canvas import png
from pyrite.analysis.statistics.audit_rates import rates_of
from pyrite.cluster.commands.audit import PAIR, draw_sample, exposures_of
from pyrite.cluster.commands.audited import read_shown
from pyrite.cluster.commands.conduct import conduct
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.study import STUDY
from pyrite.pooling.false_negatives import rate

SMALLEST = [
    "{collection} --budget 40 --seeds 5 vectors=random encoding.min_count=1 training.max_epochs=1 function=bm25,random"
]
Pairs = dict[tuple[str, str], int]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder")
    parser.add_argument("overrides", nargs="*", help="of the study, e.g. function=bm25,random")
    parser.add_argument("--budget", type=int, nargs="+", default=[300], help="negatives that an audit judges")
    parser.add_argument("--seeds", type=int, default=100, help="audits")
    parser.add_argument("--keep", type=float, default=0.5, help="share of a query's relevant documents not hidden")
    parser.add_argument("--figure", type=Path, help="of the first audit, as PNG")
    chosen = parser.parse_intermixed_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        hidden, out = Path(place) / "hidden", Path(place) / "study"
        truth = hide(chosen.folder, hidden, chosen.keep)
        study = [
            "collection=beir", f"collection.path={hidden}", "ranker=static", "sampling.recorded=1", "seeds=1",
            "local=true", "track=[]", *chosen.overrides,
        ]  # fmt: skip
        quiet = Console(quiet=True)
        conduct(read(STUDY, [*study, f"out={out}"]), quiet)
        shown = read_shown(str(out))
        mended = Path(place) / "mended.txt"
        for budget in chosen.budget:
            coverage(shown, truth, budget, chosen.seeds)
            sample = draw_sample(shown, budget, 0).filter("drawn")
            write(mended, {pair: truth.get(pair, 0) for pair in sample.select(PAIR).iter_rows()})
            if chosen.figure is not None and budget == chosen.budget[0]:
                chosen.figure.write_bytes(drawn(shown, truth, budget))
            again = Path(place) / f"again-{budget}"
            conduct(read(STUDY, [*study, f"relabel={mended}", f"out={again}"]), quiet)
            measured(f"mended by {budget} judgements", again)
        write(mended, truth)
        conduct(read(STUDY, [*study, f"relabel={mended}", f"out={Path(place) / 'all'}"]), quiet)
        measured("all that was hidden", Path(place) / "all")
        measured("as hidden", out)


def hide(source: Path, target: Path, keep: float) -> Pairs:
    """Copy a folder without some judgements of the training queries; return all judgements that there were."""
    target.mkdir()
    for file in source.glob("*.jsonl*"):
        shutil.copy(file, target)
    (target / "qrels").mkdir()
    truth, hidden, rng = {}, 0, np.random.default_rng(0)
    for file in sorted((source / "qrels").iterdir()):
        content = file.read_bytes()
        lines = (gzip.decompress(content) if file.suffix == ".gz" else content).decode().splitlines()
        by_query: dict[str, list[list[str]]] = {}
        for line in lines[1:]:
            fields = line.split("\t")
            by_query.setdefault(fields[0], []).append(fields)
            truth[fields[0], fields[1]] = int(fields[2])
        kept = [lines[0]]
        for rows in by_query.values():
            count = len(rows) if not file.name.startswith("train") else max(1, round(keep * len(rows)))
            kept += ["\t".join(rows[row]) for row in sorted(rng.permutation(len(rows))[:count])]
            hidden += len(rows) - count
        (target / "qrels" / file.name.removesuffix(".gz")).write_text("\n".join(kept) + "\n")
    print(f"{len(truth):,} judgements, {hidden:,} of them hidden")
    return truth


def coverage(shown: pl.DataFrame, truth: Pairs, budget: int, seeds: int) -> None:
    """Print how well audits of this size estimate each method's share."""
    told: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(seeds):
        sample = draw_sample(shown, budget, seed)
        relevant = np.array([float(truth.get((query, d), 0) > 0) for query, d in sample.select(PAIR).iter_rows()])
        heard = np.where(sample["drawn"].to_numpy(), relevant, np.nan)
        for method, exposures in exposures_of(shown, sample).items():
            true = float((exposures * relevant).sum() / exposures.sum())
            found = rate(exposures, sample["inclusion"].to_numpy(), heard)
            told.setdefault(method, []).append((true, found.rate or 0.0, found.low <= true <= found.high))
    for method, rows in told.items():
        true, estimates, held = np.array(rows).T
        error = np.sqrt(((estimates - true) ** 2).mean())
        print(
            f"{budget} judgements  {method:24}  true {true[0]:.2%}  mean {estimates.mean():.2%}  "
            f"RMSE {error:.2%}  covered {held.mean():.0%}"
        )


def drawn(shown: pl.DataFrame, truth: Pairs, budget: int) -> bytes:
    """The first audit as a figure, in PNG."""
    sample = draw_sample(shown, budget, 0)
    relevant = [float(truth.get((query, document), 0) > 0) for query, document in sample.select(PAIR).iter_rows()]
    known = sample.with_columns(true=pl.Series(relevant))
    heard = known.with_columns(relevant=pl.when("drawn").then("true"))
    every = shown.join(heard.select(*PAIR, "inclusion", "relevant", "true"), on=PAIR, how="left")
    true = every.group_by("method").agg((pl.col("times") * pl.col("true")).sum() / pl.col("times").sum())
    return png(rates_figure(rates_of(every), dict(true.iter_rows())))


def write(path: Path, pairs: Pairs) -> None:
    path.write_text("".join(f"{query} 0 {document} {grade}\n" for (query, document), grade in pairs.items()))


def measured(name: str, study: Path) -> None:
    """Print the mean of a study's first measure by method."""
    trials = pl.read_parquet(study / "trials.parquet")
    column = next(name for name in trials.columns if name.count(":") == 1)
    rows = trials.select("function", column).sort("function").iter_rows()
    print(f"{name}: " + "  ".join(f"{function} {value:.4f}" for function, value in rows) + f"  ({column})")


if __name__ == "__main__":
    main()
