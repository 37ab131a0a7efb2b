"""Prints the tables of docs/experiments from archived runs, and the pages papers.md and leaderboard.md.

`--archive NAME OUT` copies what the tables need of a study into docs/experiments/data; `--check` writes nothing and
fails if a page is not as printed. An archive's table is in a page between `<!-- table NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from cluster.output.methods import METHOD, evaluations, measurements
from cluster.statistics.across_places import pool_effects
from cluster.statistics.by_query import values_by_run
from cluster.statistics.comparison import MethodRuns, runs_of
from cluster.statistics.contrasts import planned_contrasts
from cluster.statistics.paired import CrossedDifference, crossed_difference, differences
from ranking.evaluation.significance import holm
from ranking.whole_file import replace_file

SMALLEST = ["--check"]
DOCS = Path(__file__).resolve().parents[1] / "docs" / "experiments"
DATA = DOCS / "data"
HALF_WIDTHS = (1.96 + 0.84) / 1.96
"""The least difference that a test shows with 80% power, in half widths of the 95% interval."""
WIDTH = 120
BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
GENERATED = "<!-- Printed by `make paper-tables`: edit benchmarks/paper_tables.py or data/papers.yaml instead. -->\n"


@dataclass(frozen=True)
class Archive:
    """A study, as far as its tables need it."""

    name: str

    @cached_property
    def about(self) -> dict[str, Any]:
        """The command, the baseline, the processor, the seconds of all runs, and whether these are to be compared."""
        content: dict[str, Any] = json.loads((DATA / self.name / "about.json").read_text("utf-8"))
        return content

    @cached_property
    def trials(self) -> pl.DataFrame:
        return pl.read_parquet(DATA / self.name / "trials.parquet")

    @cached_property
    def queries(self) -> pl.DataFrame:
        return pl.read_parquet(DATA / self.name / "queries.parquet")

    @cached_property
    def measure(self) -> str:
        return evaluations(self.trials)[0][1]

    @cached_property
    def origins(self) -> list[str]:
        return [origin for origin, measure in evaluations(self.trials) if measure == self.measure]

    @property
    def place(self) -> str:
        row = self.trials.row(0, named=True)
        return f"{row['ranker']} on {row['collection']}"

    def methods(self, origin: str) -> dict[str, MethodRuns]:
        """The runs of each method over one origin, from the highest mean to the lowest."""
        every = measurements(self.trials).filter(candidates=origin, measure=self.measure)
        found = [runs_of(part, (*METHOD, "method")) for part in every.partition_by("method")]
        return {runs.method: runs for runs in sorted(found, key=lambda runs: (-runs.mean, runs.method)) if runs.runs}

    def cells(self, method: str, origin: str) -> np.ndarray[Any, Any]:
        """The method's differences from the baseline: float64 [seeds, queries]."""
        methods, values = self.methods(origin), self.values[origin]
        cells = differences(methods[method].runs, methods[self.about["baseline"]].runs, values)
        return cells[:, ~np.isnan(cells).any(0)] if cells.ndim == 2 else np.zeros((0, 0))

    @cached_property
    def values(self) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        return values_by_run(self.queries, self.trials["run"].to_list(), self.measure)

    @cached_property
    def tests(self) -> dict[tuple[str, str], tuple[CrossedDifference, float]]:
        """The test against the baseline by method and origin, and its p by Holm's method over all of them."""
        tests = {}
        for origin in self.origins:
            for method in self.methods(origin):
                test = crossed_difference(self.cells(method, origin)) if method != self.about["baseline"] else None
                if test is not None:
                    tests[method, origin] = test
        adjusted = holm([test.p for test in tests.values()])
        return {key: (test, float(p)) for (key, test), p in zip(tests.items(), adjusted, strict=True)}


def number(value: float, places: int = 4) -> str:
    """A number below 1 without its zero, as in .1234."""
    return f"{value:.{places}f}".replace("0.", ".", 1)


def signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))


def interval(low: float, high: float) -> str:
    return f"{signed(low)} to {signed(high)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def comparison(archive: Archive) -> str:
    """All methods of an archive: means, differences from the baseline, queries won and lost, cost."""
    baseline, origins, timed = archive.about["baseline"], archive.origins, archive.about["timed"]
    rows = []
    for method in archive.methods(origins[0]):
        row = [f"**{method}**" if method == baseline else method]
        for origin in origins:
            runs = archive.methods(origin)[method]
            row.append(
                f"{number(runs.mean)} ± {number(float(runs.values.std(ddof=1)))}"
                if len(runs.values) > 1
                else number(runs.mean)
            )
            test, p = archive.tests.get((method, origin), (None, 1.0))
            if test is None:
                row += ["", ""]
                continue
            of_query = archive.cells(method, origin).mean(0)
            row.append(f"{signed(test.mean)} ({interval(test.low, test.high)}){' *' if p < 0.05 else ''}")
            row.append(f"{(of_query > 1e-9).sum()}/{(of_query < -1e-9).sum()}")
        rows.append(row + ([f"{_seconds(archive, method) / _seconds(archive, baseline):.1f}"] if timed else []))
    head = ["method"]
    for origin in origins:
        head += [f"{archive.measure}, {origin}", "difference (95%)", "queries won/lost"]
    seeds = archive.trials["seed"].n_unique()
    note = (
        f"{archive.place}, {seeds} seeds; means ± deviation over seeds. Differences are from **{baseline}**, with the "
        "95% interval for other seeds and other queries; * p < .05 by Holm's method over all differences of the table."
        + " Time is the median of a run's in times of the baseline's."
        * timed
    )
    command = f"\n```\n{archive.about['command']}\n```\n"
    return "\n" + table(head + ["time"] * timed, rows) + "\n" + textwrap.fill(note, WIDTH) + "\n" + command + "\n"


def _seconds(archive: Archive, method: str) -> float:
    """The median time of a method's runs."""
    names = [run.name for run in archive.methods(archive.origins[0])[method].runs]
    return float(np.median(archive.trials.filter(pl.col("run").is_in(names))["seconds"].to_numpy()))


def leaderboard(archives: Sequence[Archive]) -> str:
    """The page on all ways of choosing negatives: over all places, then place by place."""
    about = (
        "Ways of choosing negatives, each against one of BM25's documents and the positives of the batch. A place is a "
        "collection and a ranker. Every table is printed from archived runs (`make paper-tables`)."
    )
    text = f"{GENERATED}# Leaderboard of negatives\n\n{textwrap.fill(about, WIDTH)}\n"
    if len(archives) > 1:
        text += _over_places(archives)
    return text + "".join(f"\n## {archive.place}\n{comparison(archive)}" for archive in archives)


def _over_places(archives: Sequence[Archive]) -> str:
    text = "\n## Over all places\n\n"
    for origin in ("bm25", "random"):
        rows = []
        for method in archives[0].methods(origin):
            tests = [archive.tests[method, origin][0] for archive in archives if (method, origin) in archive.tests]
            if len(tests) < 2:
                continue
            pooled = pool_effects(np.array([t.mean for t in tests]), np.array([t.error**2 for t in tests]))
            ahead = "ahead" if pooled.mean > 0 else "behind"
            further = f"next place between {signed(pooled.next_low)} and {signed(pooled.next_high)}"
            sentence = f"{ahead} by {number(abs(pooled.mean))}, {further}"
            rows.append([method, str(len(tests)), interval(pooled.low, pooled.high), number(pooled.between), sentence])
        rows.sort(key=lambda row: row[0])
        head = ["method", "places", "95% of the mean", "between places", "in words"]
        text += f"{archives[0].measure} over {origin} candidates\n\n" + table(head, rows) + "\n"
    model = (
        "A random-effects model over places (DerSimonian and Laird 1986, Hartung and Knapp 2001): “between places” is "
        "the deviation of the true differences, and “next place” the 95% interval of the difference at a place that "
        "was not seen. With few places it is wide, and advice whose interval contains 0 is advice for the places below."
    )
    return text + textwrap.fill(model, WIDTH) + "\n"


def papers(inventory: Mapping[str, Any]) -> str:
    """The page with one row for each item of the papers."""
    text = GENERATED + inventory["introduction"].rstrip() + "\n"
    counts: dict[str, int] = {}
    sections = ""
    for paper in inventory["papers"]:
        rows = []
        for item in paper["items"]:
            ours, seeds, least, status = _result(item)
            counts[status] = counts.get(status, 0) + 1
            why = item.get("why", "")
            command = f"`{item['command']}`" if "command" in item else ""
            rows.append(
                [item["item"], item["paper"], ours, seeds, least, status + (f": {why}" if why else ""), command]
            )
        head = ["item", "paper", "here", "seeds", "least difference seen", "status", "command"]
        sections += f"\n## {paper['title']}\n\n" + table(head, rows)
    total = ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{text}\n{sum(counts.values())} items: {total}.\n{sections}\n{inventory['artifact']}"


def _result(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The figure here, the seeds, the least difference that could be seen, and the status of an item."""
    if "test" not in item:
        return item.get("here", ""), str(item.get("seeds", "")), str(item.get("least", "")), item["status"]
    of = item["test"]
    archive = Archive(of["archive"])
    others = [
        name for name in archive.trials.columns if ":" in name and f":{of.get('measure', archive.measure)}" not in name
    ]
    tested = planned_contrasts(archive.trials.drop(others), archive.queries, [of["first"], of["second"]])
    row = tested.filter(candidates=of.get("over", archive.origins[0])).row(0, named=True)
    ours = f"{signed(row['difference'])} ({interval(row['low_both'], row['high_both'])})"
    least = number((row["high_both"] - row["difference"]) * HALF_WIDTHS, 3)
    status = "repeated" if row["low_both"] > 0 else "contradicted" if row["high_both"] < 0 else "not told apart"
    return ours, str(row["seeds"]), least, status


def archive(name: str, out: Path, about: Mapping[str, Any]) -> None:
    """Copy what the tables need of a study.

    Args:
        name: the archive's name; one that begins with `negatives_` is a place of the leaderboard.
        out: the study's folder.
        about: baseline, command, processor, and whether the machine was quiet enough for times.
    """
    trials, queries = (pl.read_parquet(out / f"{kind}.parquet") for kind in ("trials", "queries"))
    measures = list(dict.fromkeys(measure for _, measure in evaluations(trials)))
    chosen = [measure for measure in measures[:3] if measure in queries.columns]
    folder = DATA / name
    folder.mkdir(parents=True, exist_ok=True)
    trials.sort("run").write_parquet(folder / "trials.parquet", compression="zstd", compression_level=19)
    kept = queries.select("run", "query", "origin", pl.col(chosen).cast(pl.Float32)).sort("run", "origin", "query")
    kept.write_parquet(folder / "queries.parquet", compression="zstd", compression_level=19)
    _write(folder / "about.json", json.dumps({**about, "seconds": round(trials["seconds"].sum())}, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    with replace_file(path) as written:
        written.write_text(text, "utf-8")


def pages() -> dict[Path, str]:
    """All generated pages, and the pages with generated tables, by their path."""
    names = sorted(path.name for path in DATA.iterdir() if path.is_dir())
    boards = [Archive(name) for name in names if name.startswith("negatives_")]
    made = {DOCS / "papers.md": papers(yaml.safe_load((DATA / "papers.yaml").read_text("utf-8")))}
    if boards:
        made[DOCS / "leaderboard.md"] = leaderboard(boards)
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text("utf-8")
        if path not in made and BLOCK.search(text):
            made[path] = BLOCK.sub(lambda found: found[1] + comparison(Archive(found[2])) + found[3], text)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page is not as printed")
    parser.add_argument("--archive", nargs=2, metavar=("NAME", "OUT"), help="archive a study's folder under a name")
    parser.add_argument("--baseline", default="", help="with --archive: the method that others are compared with")
    parser.add_argument("--command", default="", help="with --archive: the command of the study")
    parser.add_argument("--processor", default="", help="with --archive: what it ran on")
    parser.add_argument("--timed", action="store_true", help="with --archive: the machine was idle but for the study")
    chosen = parser.parse_args(arguments)
    if chosen.archive:
        about = {key: getattr(chosen, key) for key in ("baseline", "command", "processor", "timed")}
        archive(chosen.archive[0], Path(chosen.archive[1]), about)
        return
    made = pages()
    changed = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    if not chosen.check:
        for path in changed:
            _write(path, made[path])
    print(f"{len(made)} pages, {len(changed)} {'differ' if chosen.check else 'written'}")
    if chosen.check and changed:
        sys.exit("run make paper-tables: " + ", ".join(path.name for path in changed))


if __name__ == "__main__":
    main()
