"""Prints the tables of docs/experiments from archived runs, and the pages papers.md and leaderboard.md.

`--archive NAME OUT` copies what the tables need of a study into docs/experiments/data; `--check` writes nothing and
fails if a page is not as printed. An archive's table is in a page between `<!-- table NAME MEASURE… -->` and
`<!-- end -->`; without a measure it is of the study's first. `<!-- contrasts NAME MARGIN: A − B; C − D -->` prints
differences of two methods, with tests of equivalence within the margin.
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

from cluster.output.methods import LABEL, METHOD, evaluations, measurements, with_methods
from cluster.statistics.across_places import pool_effects
from cluster.statistics.by_query import values_by_run
from cluster.statistics.comparison import MethodRuns, runs_of
from cluster.statistics.oscillation import DEV_LOSS, dev_loss_variance
from cluster.statistics.paired import (
    CrossedDifference,
    Difference,
    MeasuredRun,
    crossed_difference,
    differences,
    mean_difference,
)
from cluster.statistics.pool_summary import summarise_pools
from ranking.evaluation.significance import holm
from ranking.whole_file import replace_file

SMALLEST = ["--check"]
DOCS = Path(__file__).resolve().parents[1] / "docs" / "experiments"
DATA = DOCS / "data"
HALF_WIDTHS = (1.96 + 0.84) / 1.96
"""The least difference that a test shows with 80% power, in half widths of the 95% interval."""
WIDTH = 120
BLOCK = re.compile(r"(<!-- (table|contrasts|pools) ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FACTOR = " · "
"""Separates a method's label from the factors that it was run with."""
Tests = Mapping[tuple[str, str, str], tuple[CrossedDifference, float]]
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

    def methods(self, origin: str, measure: str = "") -> dict[str, MethodRuns]:
        """The runs of each method over one origin: by factor, then from the highest mean to the lowest."""
        key = origin, measure or self.measure
        if key not in self._methods:
            every = self.measured.filter(candidates=key[0], measure=key[1])
            runs = [runs_of(part, (*METHOD, "method")) for part in every.partition_by("method")]
            runs.sort(key=lambda method: (_in_order(method.method), -method.mean, method.method))
            self._methods[key] = {method.method: method for method in runs if method.runs}
        return self._methods[key]

    @cached_property
    def _methods(self) -> dict[tuple[str, str], dict[str, MethodRuns]]:
        return {}

    @cached_property
    def measured(self) -> pl.DataFrame:
        return measurements(self.trials)

    @property
    def has_factors(self) -> bool:
        return any(FACTOR in method for method in self.methods(self.origins[0]))

    def baseline(self, method: str) -> str:
        """The method that another is compared with: the baseline, with the other's factors if it was run with them."""
        _, *with_factors = method.split(FACTOR, 1)
        name = FACTOR.join([self.about["baseline"], *with_factors])
        return name if name in self.methods(self.origins[0]) else str(self.about["baseline"])

    def cells(self, first: str, second: str, origin: str, measure: str = "") -> np.ndarray[Any, Any]:
        """The differences of two methods: float64 [seeds or agents, queries]."""
        methods, values = self.methods(origin, measure), self._values(measure or self.measure)[origin]
        cells = differences(methods[first].runs, methods[second].runs, values)
        return cells[:, ~np.isnan(cells).any(0)] if cells.ndim == 2 else np.zeros((0, 0))

    def _values(self, measure: str) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        if measure not in self._by_measure:
            self._by_measure[measure] = values_by_run(self.queries, self.trials["run"].to_list(), measure)
        return self._by_measure[measure]

    @cached_property
    def _by_measure(self) -> dict[str, Any]:
        return {}

    def by_seed(self, first: str, second: str, figure: str) -> Difference:
        """The difference of two methods in a figure of a whole run, which has an interval for other seeds.

        Args:
            first, second: the methods.
            figure: a column of the trials, or `dev loss`, the variance of its changes from epoch to epoch.
        """
        named = self.measured.unique("run").select("run", "method", "agent", "seed")
        rows = self.trials.join(named.select("run", "method", "agent"), on="run").sort("run")
        runs: dict[str, list[MeasuredRun]] = {first: [], second: []}
        for row in rows.filter(pl.col("method").is_in([first, second])).iter_rows(named=True):
            value = dev_loss_variance(row[DEV_LOSS]) if figure == "dev loss" else row[figure]
            runs[row["method"]].append(MeasuredRun(value, row["seed"], row["agent"]))
        return mean_difference(differences(runs[first], runs[second]))

    def tests(self, measures: Sequence[str] = ()) -> Tests:
        """The tests against the baseline by method, origin and measure, and their p by Holm's method over all."""
        chosen = tuple(measures) or (self.measure,)
        if chosen not in self._tests:
            self._tests[chosen] = self._tested(chosen)
        return self._tests[chosen]

    @cached_property
    def _tests(self) -> dict[tuple[str, ...], Tests]:
        return {}

    def _tested(self, measures: Sequence[str]) -> Tests:
        tests = {}
        for measure in measures:
            for origin in self.origins:
                for method in self.methods(origin, measure):
                    against = self.baseline(method)
                    test = (
                        crossed_difference(self.cells(method, against, origin, measure)) if method != against else None
                    )
                    if test is not None:
                        tests[method, origin, measure] = test
        adjusted = holm([test.p for test in tests.values()])
        return {key: (test, float(p)) for (key, test), p in zip(tests.items(), adjusted, strict=True)}


def _in_order(method: str) -> list[float]:
    """Sorts methods by the numbers among their factors."""
    _, *with_factors = method.split(FACTOR, 1)
    return [float(text) for text in re.findall(r"=(\d[\d.e-]*)", "".join(with_factors))]


def number(value: float, places: int = 4) -> str:
    """A number below 1 without its zero, as in .1234."""
    return f"{value:.{places}f}".replace("0.", ".", 1)


def signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + number(abs(value))


def interval(low: float, high: float) -> str:
    return f"{signed(low)} to {signed(high)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def comparison(archive: Archive, measures: Sequence[str] = ()) -> str:
    """All methods of an archive: means, differences from the baseline, queries won and lost, cost."""
    measures = list(measures) or [archive.measure]
    origins, timed, tests = archive.origins, archive.about["timed"], archive.tests(measures)
    baselines = {archive.baseline(method) for method in archive.methods(origins[0])}
    rows = []
    for measure in measures:
        for method in archive.methods(origins[0], measure):
            row = [measure] * (len(measures) > 1) + [f"**{method}**" if method in baselines else method]
            for origin in origins:
                runs = archive.methods(origin, measure)[method]
                spread = f" ± {number(float(runs.values.std(ddof=1)))}" if len(runs.values) > 1 else ""
                row.append(number(runs.mean) + spread)
                test, p = tests.get((method, origin, measure), (None, 1.0))
                if test is None:
                    row += ["", ""]
                    continue
                of_query = archive.cells(method, archive.baseline(method), origin, measure).mean(0)
                row.append(f"{signed(test.mean)} ({interval(test.low, test.high)}){' *' if p < 0.05 else ''}")
                row.append(f"{(of_query > 1e-9).sum()}/{(of_query < -1e-9).sum()}")
            cost = f"{_seconds(archive, method) / _seconds(archive, archive.baseline(method)):.1f}" if timed else ""
            rows.append(row + [cost] * timed)
    head = ["measure"] * (len(measures) > 1) + ["method"]
    for origin in origins:
        title = origin if len(measures) > 1 else f"{archive.measure}, {origin}"
        head += [title, "difference (95%)", "queries won/lost"]
    note = _note(archive, measures, tests) + " Time is the median of a run's in times of the baseline's." * timed
    if archive.about.get("measured"):
        note += f" Measured on {archive.about['measured']}."
    command = f"\n```\n{archive.about['command']}\n```\n"
    return "\n" + table(head + ["time"] * timed, rows) + "\n" + textwrap.fill(note, WIDTH) + "\n" + command + "\n"


def _note(archive: Archive, measures: Sequence[str], tests: Tests) -> str:
    """What the runs and the columns of `comparison` are."""
    seeds, agents = archive.trials["seed"].n_unique(), archive.measured["agent"].n_unique()
    several = f" and {agents - ('-' in archive.measured['agent'])} agents" if agents > 1 else ""
    least = {
        origin: max((test.high - test.mean) * HALF_WIDTHS for (_, over, of), (test, _) in tests.items()
                    if over == origin and of == measures[0])
        for origin in archive.origins
    }  # fmt: skip
    seen = " and ".join(f"{number(value, 3)} over {origin}" for origin, value in least.items())
    return (
        f"{archive.place}, {seeds} seeds{several}; means ± deviation over runs. Differences are from "
        f"**{archive.about['baseline']}**{', with the same factors' * archive.has_factors}, with the 95% interval for "
        "other seeds and other queries; * p < .05 by Holm's method over all differences of the table. With a "
        f"probability of 80% these runs show a difference of {seen} ({measures[0]}, the least certain row)."
    )


def contrasts(archive: Archive, margin: float, pairs: Sequence[tuple[str, ...]]) -> str:
    """The differences of pairs of methods, by the leading measure, and whether they are within the margin."""
    rows = []
    for first, second in pairs:
        for origin in archive.origins:
            test = crossed_difference(archive.cells(first, second, origin))
            if test is None:
                raise ValueError(f"{archive.name}: {first} and {second} can't be compared")
            least = number((test.high - test.mean) * HALF_WIDTHS, 3)
            difference = f"{signed(test.mean)} ({interval(test.low, test.high)})"
            rows.append([f"{first} less {second}", origin, difference, least, number(test.p_equal(margin), 3)])
    head = ["", "over", f"{archive.measure} (95%)", "least difference seen", f"p, equal within {number(margin, 3)}"]
    return "\n" + table(head, rows) + "\n"


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
    return text + "".join(
        f"\n## {archive.place}, {archive.trials['seed'].n_unique()} seeds\n{comparison(archive)}"
        for archive in archives
    )


def _over_places(archives: Sequence[Archive]) -> str:
    largest = sorted(archives, key=lambda archive: (archive.place, len(archive.methods(archive.origins[0]))))
    archives = list({archive.place: archive for archive in largest}.values())
    text = "\n## Over all places\n\n"
    for origin in ("bm25", "random"):
        rows = []
        for method in archives[0].methods(origin):
            every = [(archive.tests(), (method, origin, archive.measure)) for archive in archives]
            tests = [found[key][0] for found, key in every if key in found]
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
    if "found" in item:
        of = item["found"]
        here = f"{PoolArchive(of['archive']).found(of['method'], of['budget']):.2f}"
        if "drawn" in of:
            here += f"; {PoolArchive(of['drawn']).found(of['method'], of['budget']):.2f} as R draws"
        return here, str(item["seeds"]), "", item["status"]
    if "test" not in item:
        return item.get("here", ""), str(item.get("seeds", "")), str(item.get("least", "")), item["status"]
    of = item["test"]
    archive = Archive(of["archive"])
    first, second = of["first"], of["second"]
    if "figure" in of:
        difference = archive.by_seed(first, second, of["figure"])
        mean, low, high, units = difference.mean, difference.low, difference.high, difference.pairs
    else:
        cells = archive.cells(first, second, of.get("over", archive.origins[0]), of.get("measure", ""))
        test = crossed_difference(cells)
        if test is None:
            raise ValueError(f"{of['archive']}: {first} and {second} can't be compared")
        mean, low, high, units = test.mean, test.low, test.high, len(cells)
    ours = f"{signed(mean)} ({interval(low, high)})"
    least = number((high - mean) * HALF_WIDTHS, 3)
    status = "repeated" if low > 0 else "contradicted" if high < 0 else "not told apart"
    return ours, f"{units}{' agents' * _by_agent(archive, first, second)}", least, status


def _by_agent(archive: Archive, first: str, second: str) -> bool:
    """Whether the agent is the unit of a comparison."""
    runs = archive.measured.filter(pl.col("method").is_in([first, second]))
    return runs.group_by("method").agg(pl.col("agent").n_unique())["agent"].max() != 1


@dataclass(frozen=True)
class PoolArchive:
    """The relevant documents that orders of judging found."""

    name: str

    @cached_property
    def command(self) -> str:
        about: dict[str, Any] = json.loads((DATA / self.name / "about.json").read_text("utf-8"))
        return str(about["command"])

    @cached_property
    def summary(self) -> pl.DataFrame:
        budgets = pl.read_parquet(DATA / self.name / "budgets.parquet")
        return summarise_pools(budgets, budgets["method"].unique().sort().to_list(), None)

    def rows(self, method: str) -> list[dict[str, Any]]:
        """The rows of a method, one per budget."""
        return self.summary.filter(method=method).to_dicts()

    def found(self, method: str, budget: int) -> float:
        """The relevant documents found per topic, the mean over topics and seeds."""
        return float(self.summary.filter(method=method, budget=budget)["found_mean"][0])


def pool_comparison(names: Sequence[str]) -> str:
    """A paper's pooling table beside two archives: the text taken literally, and as the paper's program draws."""
    ours, as_published = map(PoolArchive, names)
    printed = yaml.safe_load((DATA / "papers.yaml").read_text("utf-8"))["pools"]
    head = ["method", *(row["judgements"] for row in ours.rows(next(iter(printed))))]
    rows = []
    for method, figures in printed.items():
        found = ours.rows(method)
        rows.append([f"{method}, paper", *map(str, figures)])
        rows.append(["ours", *(f"{row['found_mean']:.2f}" for row in found)])
        rows.append(["", *(f"{row['low']:.1f}–{row['high']:.1f}" for row in found)])
        if drawn := as_published.rows(method):
            rows.append(["as R draws", *(f"{row['found_mean']:.2f}" for row in drawn)])
    return f"\n{table(head, rows)}\n```\n{ours.command}\n{as_published.command}\n```\n\n"


def archive(
    name: str, out: Path, about: Mapping[str, Any], labels: Mapping[str, str] | None = None, data: str = ""
) -> None:
    """Copy what the tables need of a study.

    Args:
        name: the archive's name; one that begins with `negatives_` is a place of the leaderboard.
        out: the folder of a study, or of `pyrite pool`.
        about: baseline, command, processor, and whether the machine was quiet enough for times.
        labels: names for methods, by the study's; None keeps those.
        data: the folder of collections, which is replaced by FOLDER.
    """
    folder = DATA / name
    if (out / "budgets.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        budgets = pl.read_parquet(out / "budgets.parquet").sort(pl.all())
        budgets.write_parquet(folder / "budgets.parquet", compression="zstd", compression_level=19)
        seconds = round(pl.read_parquet(out / "trials.parquet")["seconds"].sum())
        _write(folder / "about.json", json.dumps({**about, "seconds": seconds}, indent=1) + "\n")
        return
    trials, queries = (pl.read_parquet(out / f"{kind}.parquet") for kind in ("trials", "queries"))
    measures = list(dict.fromkeys(measure for _, measure in evaluations(trials)))
    chosen = [measure for measure in measures[:3] if measure in queries.columns]
    if labels is not None:
        name_of = {row["run"]: labels[row["method"]] for row in with_methods(trials).iter_rows(named=True)}
        pairs = [[{"key": LABEL, "value": name_of[run]}] for run in trials["run"]]
        trials = trials.with_columns(swept=pl.Series(pairs, dtype=trials.schema["swept"]))
    if data:
        trials = trials.with_columns(pl.col("overrides").str.replace_all(data, "FOLDER", literal=True))
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
            made[path] = BLOCK.sub(lambda found: found[1] + _printed(found[2], found[3]) + found[4], text)
    return made


def _printed(kind: str, described: str) -> str:
    """The table of a marker in a page."""
    if kind == "contrasts":
        named, _, pairs = described.partition(": ")
        name, margin = named.split()
        return contrasts(Archive(name), float(margin), [tuple(pair.split(" − ")) for pair in pairs.split("; ")])
    name, *words = described.split()
    return pool_comparison([name, *words]) if kind == "pools" else comparison(Archive(name), words)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page is not as printed")
    parser.add_argument("--archive", nargs=2, metavar=("NAME", "OUT"), help="archive a study's folder under a name")
    parser.add_argument("--baseline", default="", help="with --archive: the method that others are compared with")
    parser.add_argument("--command", default="", help="with --archive: the command of the study")
    parser.add_argument("--processor", default="", help="with --archive: what it ran on")
    parser.add_argument(
        "--measured", default="", help="with --archive: the date, and the commit if defaults have changed"
    )
    parser.add_argument("--labels", type=Path, help="with --archive: a YAML file of labels by the names of methods")
    parser.add_argument("--data", default="", help="with --archive: the folder of collections, which is not recorded")
    parser.add_argument("--timed", action="store_true", help="with --archive: the machine was idle but for the study")
    chosen = parser.parse_args(arguments)
    if chosen.archive:
        about = {key: getattr(chosen, key) for key in ("baseline", "command", "processor", "measured", "timed")}
        labels = yaml.safe_load(chosen.labels.read_text("utf-8")) if chosen.labels else None
        archive(chosen.archive[0], Path(chosen.archive[1]), about, labels, chosen.data)
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
