"""Reads archived runs of docs/experiments/data, and formats numbers for tables."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from pyrite.analysis.methods import AGENTS, LABEL, METHOD, evaluations, measurements, with_methods
from pyrite.analysis.statistics.by_query import values_by_run
from pyrite.analysis.statistics.comparison import MethodRuns, compare_both, methods_of
from pyrite.analysis.statistics.crossed import CrossedDifference
from pyrite.analysis.statistics.oscillation import DEV_LOSS, dev_loss_variance
from pyrite.analysis.statistics.paired import Difference, MeasuredRun, differences, mean_difference
from pyrite.cluster.output.provenance import RELEASE
from pyrite.cluster.output.result_store import BUILT_FROM, ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.evaluation.significance import holm
from pyrite.ranking.precision import CPUINFO
from pyrite.ranking.whole_file import replace_file

DOCS = Path(__file__).resolve().parents[1] / "docs" / "experiments"
DATA = DOCS / "data"
FACTOR = " · "
"""Separates a method's label from the factors that it was run with."""
Tests = Mapping[tuple[str, str, str], tuple[CrossedDifference, float]]


class Described(Protocol):
    """An archive of any kind, which has the command of its study."""

    @property
    def about(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Archive:
    """A study, as far as its tables need it.

    Args:
        name: its folder in docs/experiments/data.
        against: the baseline, instead of the one that it was archived with.
    """

    name: str
    against: str = ""

    @cached_property
    def about(self) -> dict[str, Any]:
        """The command, the baseline, the processor, the seconds of all runs, and whether times can be compared."""
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
        """The rankers, with what is read of their checkpoints if these are cut, and the collection."""
        cuts = self.about.get("cut", {})
        rankers = [ranker + (f" ({cuts[ranker]})" if ranker in cuts else "") for ranker in self._rankers]
        return f"{', '.join(rankers)} on {self.trials['collection'][0]}"

    @property
    def _rankers(self) -> list[str]:
        return self.trials["ranker"].unique().sort().to_list()

    def methods(self, origin: str, measure: str = "") -> dict[str, MethodRuns]:
        """The runs of each method over one origin: by factor, then from the highest mean to the lowest."""
        key = origin, measure or self.measure
        if key not in self._methods:
            every = self.measured.filter(candidates=key[0], measure=key[1])
            runs = list(methods_of(every, (*METHOD, "method")).values())
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
        name = FACTOR.join([self.against or self.about["baseline"], *with_factors])
        return name if name in self.methods(self.origins[0]) else name.split(FACTOR)[0]

    def median(self, method: str, column: str) -> float:
        """The median over a method's runs of a column of the trials."""
        names = [run.name for run in self.methods(self.origins[0])[method].runs]
        return float(np.median(self.trials.filter(pl.col("run").is_in(names))[column].to_numpy()))

    def cells(self, first: str, second: str, origin: str, measure: str = "") -> np.ndarray[Any, Any]:
        """The differences of two methods: float64 [seeds or agents, queries]."""
        methods, values = self.methods(origin, measure), self._values(measure or self.measure)[origin]
        cells = differences(methods[first].runs, methods[second].runs, values)
        return cells[:, ~np.isnan(cells).any(0)] if cells.ndim == 2 else np.zeros((0, 0))

    def difference(self, first: str, second: str, origin: str, measure: str = "") -> CrossedDifference:
        """Compare two methods over seeds and queries, and over agents if one has several."""
        methods, values = self.methods(origin, measure), self._values(measure or self.measure)[origin]
        return compare_both(methods[first], methods[second], values)

    def _values(self, measure: str) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        if measure not in self._by_measure:
            self._by_measure[measure] = values_by_run(self.queries, self.trials, measure)
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
        return mean_difference(differences(self._by_run(first, figure), self._by_run(second, figure)))

    def figure(self, method: str, figure: str) -> list[float]:
        """A figure of each of a method's runs (see `by_seed`)."""
        return [run.value for run in self._by_run(method, figure)]

    def _by_run(self, method: str, figure: str) -> list[MeasuredRun]:
        named = self.measured.unique("run").filter(method=method).select("run", "agent")
        rows = self.trials.join(named, on="run").sort("run").iter_rows(named=True)
        return [
            MeasuredRun(
                dev_loss_variance(row[DEV_LOSS]) if figure == "dev loss" else row[figure], row["seed"], row["agent"]
            )
            for row in rows
        ]

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
                    test = self.difference(method, against, origin, measure)
                    if method != against and test.is_known:
                        tests[method, origin, measure] = test
        adjusted = holm([test.p for test in tests.values()])
        return {key: (test, float(p)) for (key, test), p in zip(tests.items(), adjusted, strict=True)}


def _in_order(method: str) -> list[float]:
    """Sorts methods by the numbers among their factors."""
    _, *with_factors = method.split(FACTOR, 1)
    return [float(text) for text in re.findall(r"=(\d[\d.e-]*)", "".join(with_factors))]


def number(value: float, places: int = 4) -> str:
    """A number below 1 without its zero, as in .1234."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{places}f}")


def signed(value: float, places: int = 4) -> str:
    text = number(abs(value), places)
    return text if float(text) == 0 else ("+" if value > 0 else "−") + text


def interval(low: float, high: float, places: int = 4) -> str:
    return f"{signed(low, places)} to {signed(high, places)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def commands(*studies: Described) -> str:
    return "```\n" + "".join(f"{study.about['command']}\n" for study in studies) + "```\n\n"


def built_by(out: Path) -> dict[str, str]:
    """Return the version and the commit of Pyrite that made an output folder's runs, as far as their results say."""
    store = ResultStore(Storage(str(out)), "runs")
    made = [(store.read(key) or {}).get(BUILT_FROM, {}) for key in store.keys()]  # noqa: SIM118  a store is no dictionary
    return {name: ", ".join(sorted({of_run[name] for of_run in made if name in of_run})) for name in RELEASE}


def processor() -> str:
    """Return this machine's processor and the number of its cores."""
    names = re.findall(r"^model name\s*: (.+)$", CPUINFO.read_text() if CPUINFO.exists() else "", re.MULTILINE)
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def archive(
    name: str, out: Path, about: Mapping[str, Any], labels: Mapping[str, str] | None = None, data: str = ""
) -> None:
    """Copy what the tables need of a study.

    Args:
        name: the archive's name; one that begins with `negatives_` is a place of the leaderboard.
        out: the folder of a study.
        about: baseline, command, processor (if empty, this machine's), and whether the machine was quiet
            enough for times.
        labels: names for methods, by the study's; None keeps those. `{ranker}` in one is replaced by the ranker.
        data: the folder of collections, which is replaced by FOLDER.
    """
    folder = DATA / name
    trials, queries = (pl.read_parquet(out / f"{kind}.parquet") for kind in ("trials", "queries"))
    measures = list(dict.fromkeys(measure for _, measure in evaluations(trials)))
    chosen = [measure for measure in measures[:3] if measure in queries.columns]
    if labels is not None:
        name_of = {
            row["run"]: labels[row["method"]].format(**row) for row in with_methods(trials).iter_rows(named=True)
        }
        agents = [[pair for pair in pairs or [] if pair["key"] in AGENTS] for pairs in trials["swept"].to_list()]
        pairs = [[{"key": LABEL, "value": name_of[run]}, *own] for run, own in zip(trials["run"], agents, strict=True)]
        trials = trials.with_columns(swept=pl.Series(pairs, dtype=trials.schema["swept"]))
    places = {str(out.resolve()): "OUT", **({data: "FOLDER"} if data else {})}
    for place, name_of_place in places.items():
        trials = trials.with_columns(pl.col("overrides").str.replace_all(place, name_of_place, literal=True))
    folder.mkdir(parents=True, exist_ok=True)
    trials.sort("run").write_parquet(folder / "trials.parquet", compression="zstd", compression_level=19)
    kept = queries.select("run", "query", "origin", pl.col(chosen).cast(pl.Float32)).sort("run", "origin", "query")
    kept.write_parquet(folder / "queries.parquet", compression="zstd", compression_level=19)
    described = {**about, "processor": about.get("processor") or processor(), **built_by(out)}
    write(folder / "about.json", json.dumps({**described, "seconds": round(trials["seconds"].sum())}, indent=1) + "\n")


def write(path: Path, text: str) -> None:
    with replace_file(path) as written:
        written.write_text(text, "utf-8")
