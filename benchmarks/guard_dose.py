"""Plants hidden positives, and measures whether a guard pays by how many of them are shown as negatives.

    python -m benchmarks.guard_dose OUT --collection NAME OVERRIDES [--teacher FOLDER] [--encoder FOLDER]
        [--guards G …] [--hardness H …] [--rates R …] [--seeds N] [--hours H] [--cores N] [--report]

Judgements of training queries are hidden at each rate (0, 1, 5, 20, 50%); dev and test queries keep theirs. Each rate
is a BEIR folder in OUT. Static vectors, or the whole encoder that --encoder names, are trained with negatives of three
hardnesses (uniform over BM25's list, SimANS, the highest BM25 scores), without a guard, with one by BM25's scores, and
with one by --teacher's. It prints the share of negatives shown that are hidden positives, what each guard gains, and,
from two collections on, how well a line that is fitted to the others predicts a collection's gains from 300 judged
negatives. OVERRIDES are those of the collection, in quotes: --collection cranfield "collection=beir
collection.path=FOLDER". It continues where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

import pyrite
from benchmarks.archives import table
from benchmarks.unit_files import Result, Unit, conduct, results_of
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection

SMALLEST = [
    "{out} --collection made 'collection=beir collection.path={collection}' --rates 0 0.5 --seeds 2 --epochs 1",
    "{out} --report",
]
RATES = (0.0, 0.01, 0.05, 0.2, 0.5)
HARDNESS = ("uniform", "simans", "top")
RELATIVE = 0.05
"""The guards' margin, as a share of the positive's score."""
JUDGED = 300
SHARES = {"train": 0.6, "dev": 0.2, "test": 0.2}
RUNS = [
    "scale=medium", "training.patience=99", "function=[in_batch,bm25]", "negatives.bm25=1", "selector=uniform",
    "sampling.recorded=1.0", "origin=bm25",
]  # fmt: skip
STATIC = ["ranker=static", "ranker.spread=0", "optimizer.lr=.032"]
ENCODER = [
    "ranker=bi_encoder", "ranker.max_query=32", "ranker.max_document=64", "ranker.precision=float32",
    "optimizer.lr=5e-5", "training.batch_size=16",
]  # fmt: skip
GUARDS = ("none", "BM25", "teacher")


def split_of(collection: Collection) -> pl.DataFrame:
    """Return the queries with a split: the collection's, or one by chance."""
    queries = collection.queries
    if queries["split"].null_count() < len(queries):
        return queries.select("id", "text", "split").filter(pl.col("split").is_not_null())
    order = np.random.default_rng(0).permutation(len(queries))
    ends = np.cumsum([round(share * len(order)) for share in SHARES.values()])
    names = np.array([*SHARES, "test"])[np.searchsorted(ends, np.arange(len(order)), side="right")]
    named = pl.Series("split", names[np.argsort(order)])
    return queries.select("id", "text").with_columns(named)


def plant(collection: Collection, rate: float, folder: Path) -> None:
    """Write a BEIR folder without a share of the training judgements; those left out are in hidden.tsv."""
    queries = split_of(collection)
    judged = collection.judgements.filter(pl.col("grade") > 0)
    of_query = judged.join(queries.select(query="id", split="split"), on="query", maintain_order="left")
    rng = np.random.default_rng(1)
    # The same draw for all rates: what is hidden at a low rate is hidden at a higher one. One judgement is kept.
    of_query = of_query.with_columns(draw=pl.Series(rng.random(len(of_query))))
    kept = pl.col("draw") == pl.col("draw").max().over("query")
    hidden = of_query.filter((pl.col("split") == "train") & (pl.col("draw") < rate) & ~kept)
    left = of_query.join(hidden, on=["query", "document"], how="anti", maintain_order="left")
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", collection.documents), ("queries", queries)):
        rows.select(pl.col("id").alias("_id"), "text").write_ndjson(folder / f"{name}.jsonl")
    columns = {"query": "query-id", "document": "corpus-id", "grade": "score"}
    for split in SHARES:
        rows = left.filter(split=split).select(*columns).rename(columns)
        rows.write_csv(folder / "qrels" / f"{split}.tsv", separator="\t")
    hidden.select("query", "document").write_csv(folder / "hidden.tsv", separator="\t")


def studied(chosen: argparse.Namespace, overrides: str, name: str, rate: float, guard: str, out: Path) -> Result:
    """Plant a rate, train all hardnesses under a guard, and return the values and the shares of hidden positives."""
    folder = out.with_name(f"{name}-{rate:g}")
    if not (folder / "hidden.tsv").exists():
        config = compose(overrides.split())
        reader = build(config["collection"], "collection", trust="composed")
        plant(open_collection(reader, out.with_name("cache")), rate, folder)
    margins = {"none": [], "BM25": [f"guard.relative={RELATIVE}"]}
    margins["teacher"] = [f"guard.relative={RELATIVE}", f"guard.ranker={chosen.teacher}"]
    ranker = [*ENCODER, f"ranker.checkpoint={chosen.encoder}"] if chosen.encoder else STATIC
    options = [*RUNS, *ranker, f"selector.bm25={','.join(chosen.hardness)}", *margins[guard]]
    options += ["collection=beir", f"collection.path={folder}", f"seeds={chosen.seeds}", "local=true"]
    options += [] if chosen.epochs is None else [f"training.max_epochs={chosen.epochs}"]
    study = pyrite.study(resume=out) if (out / "config.yaml").exists() else pyrite.study([*options, f"out={out}"])
    values = study.queries.filter(origin="bm25").group_by("run").agg(value=pl.col("AP@100").mean())
    hidden = pl.read_csv(folder / "hidden.tsv", separator="\t", schema={"query": pl.String, "document": pl.String})
    shown = study.frame("shown").filter(pl.col("function") == "bm25")
    shown = shown.join(hidden.with_columns(hidden=1), on=["query", "document"], how="left").fill_null(0)
    shares = shown.group_by("run").agg(false=(pl.col("hidden") * pl.col("times")).sum() / pl.col("times").sum())
    hardness = pl.col("overrides").str.extract(r"selector\.bm25=(\w+)").alias("hardness")
    rows = study.trials.select("run", "seed", hardness).join(values, on="run").join(shares, on="run")
    return {"collection": name, "rate": rate, "guard": guard, "runs": rows.sort("run").to_dicts()}


def units(chosen: argparse.Namespace) -> list[Unit]:
    """Return the studies: all guards of a rate together, from both ends of the rates."""
    guards = chosen.guards or (GUARDS if chosen.teacher else GUARDS[:2])
    ordered = sorted(chosen.rates, key=lambda rate: (rate not in (0.0, max(chosen.rates)), -rate))
    return [
        Unit(f"{name}-{rate:g}-{guard}", partial(studied, chosen, overrides, name, rate, guard))
        for rate, (name, overrides), guard in itertools.product(ordered, chosen.collection, guards)
    ]


def paired(plain: Sequence[Result], guarded: Sequence[Result]) -> tuple[float, float, float]:
    """Return what a guard gains and its 95% interval, over pairs of runs with one seed."""
    without = {run["seed"]: run["value"] for run in plain}
    gains = np.array([run["value"] - without[run["seed"]] for run in guarded if run["seed"] in without])
    reach = stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains))
    return float(gains.mean()), float(gains.mean() - reach), float(gains.mean() + reach)


def cells(results: list[Result]) -> list[dict[str, Any]]:
    """Return one row per collection, rate, hardness and guard: the share shown without the guard, and its gain."""
    by_arm = {
        (each["collection"], each["rate"], each["guard"], hardness): [
            run for run in each["runs"] if run["hardness"] == hardness
        ]
        for each in results
        for hardness in HARDNESS
    }
    rows = []
    for (collection, rate, guard, hardness), runs in by_arm.items():
        plain = by_arm.get((collection, rate, "none", hardness), [])
        if guard == "none" or min(len(plain), len(runs)) < 2:
            continue
        mean, low, high = paired(plain, runs)
        shares = [float(np.mean([run["false"] for run in side])) for side in (plain, runs)]
        value = float(np.mean([run["value"] for run in plain]))
        rows.append({
            "collection": collection, "rate": rate, "hardness": hardness, "guard": guard, "value": value,
            "false": shares[0], "left": shares[1], "gain": mean, "low": low, "high": high,
        })  # fmt: skip
    return rows


def predictions(rows: list[dict[str, Any]], guard: str) -> list[list[str]]:
    """Return, for each collection, the error of the gains that the others' line predicts from 300 judged negatives."""
    rng, lines = np.random.default_rng(0), []
    rows = [row for row in rows if row["guard"] == guard]
    for name in dict.fromkeys(row["collection"] for row in rows):
        others, own = [r for r in rows if r["collection"] != name], [r for r in rows if r["collection"] == name]
        if len(others) < 3:
            continue
        slope, level = np.polyfit([row["false"] for row in others], [row["gain"] for row in others], 1)
        judged = np.array([rng.binomial(JUDGED, row["false"]) / JUDGED for row in own])
        gains = np.array([row["gain"] for row in own])
        error = float(np.sqrt(np.mean((level + slope * judged - gains) ** 2)))
        plain = float(np.sqrt(np.mean((np.mean([row["gain"] for row in others]) - gains) ** 2)))
        lines.append([name, guard, f"{level:+.4f} {slope:+.3f} × share", f"{error:.4f}", f"{plain:.4f}"])
    return lines


def report(results: list[Result]) -> None:
    """Print what is known so far."""
    rows = cells(results)
    head = ["collection", "hidden", "negatives", "guard", "AP@100 without", "hidden positives shown", "with the guard"]
    print(table([*head, "the guard's gain (95%, other seeds)"], [
        [row["collection"], f"{row['rate']:.0%}", row["hardness"], row["guard"], f"{row['value']:.4f}",
         f"{row['false']:.2%}", f"{row['left']:.2%}", f"{row['gain']:+.4f} ({row['low']:+.4f} to {row['high']:+.4f})"]
        for row in sorted(rows, key=lambda row: (row["collection"], row["guard"], row["hardness"], row["rate"]))
    ]))  # fmt: skip
    lines = [line for guard in ("BM25", "teacher") for line in predictions(rows, guard)]
    if lines:
        head = ["left out", "guard", "line of the others", "error of its prediction", "error of the others' mean"]
        print(table(head, lines))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--collection", nargs=2, action="append", default=[], metavar=("NAME", "OVERRIDES"))
    parser.add_argument("--teacher", default="", help="an encoder whose scores guard, e.g. MiniLM's folder")
    parser.add_argument("--encoder", default="", help="a whole encoder to train instead of static vectors")
    parser.add_argument("--guards", nargs="+", choices=GUARDS, help="instead of all")
    parser.add_argument("--hardness", nargs="+", choices=HARDNESS, default=list(HARDNESS))
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="instead of those of scale=medium")
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only print what OUT holds")
    chosen = parser.parse_args(arguments)
    if not chosen.report:
        conduct(chosen.out, units(chosen), chosen.hours, chosen.cores)
    report(results_of(chosen.out))


if __name__ == "__main__":
    main()
