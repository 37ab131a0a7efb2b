"""Summarises a study: the mean of each method, how far its runs spread, and which differences are real.

Cohen et al. 2019 (sections 5.4 and 6) report the mean and deviation of many runs, and mark a policy that differs from
the best baseline by Student's t-test or the Kolmogorov-Smirnov test. Both take all runs as independent, which runs of
the same seeds are not. The test that leads here is paired by seed and query, and takes both as a sample
(`pyrite.analysis.statistics.paired.crossed_difference`). Only p values that are adjusted by Holm's method make marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from pyrite.analysis.methods import BM25, RUN, UNTRAINED, first_stage_of
from pyrite.analysis.statistics.before_training import untrained_rows, untrained_twin
from pyrite.analysis.statistics.comparison import LEAST_SEEDS, LEVEL, TESTS, MethodRuns, best_baselines, compare
from pyrite.analysis.statistics.crossed import NAN, Floats, deviation
from pyrite.analysis.statistics.paired import MeasuredRun
from pyrite.analysis.statistics.places import Place, Places
from pyrite.ranking.evaluation.significance import bootstrap_interval

MEASURED = ("seconds", "memory")
"""What no repetition repeats to the last bit; it is in `costs.csv`."""
COSTS = ("seconds", "documents_read", "memory")
"""Over runs: the median time of the training alone, because the first run of a process takes longer; the mean number of
distinct documents of each batch, or of its pairs if the ranker reads a query and a document together; the mean of the
MiB at the peak."""
BUDGET = ("steps", "examples", "scored_step", "refreshes")
"""Means over the runs of a training of the user's: its optimizer steps, the pairs that it read, the step whose weights
were measured, and the refreshes of its negatives. Early stopping may give methods different ones."""

PAIRED_TESTS = (
    "low_both",
    "high_both",
    "p_both",
    "p_both_holm",
    "equal_p",
    "paired_p",
    "paired_p_holm",
    "sign_p",
    "sign_p_holm",
)
UNPAIRED_TESTS = ("t_p", "t_p_holm", "ks_p", "ks_p_holm")

COLUMN = ("collection", "candidates", "measure")
"""What the methods of a summary are listed by: one column of the table of results."""
LEAST = "least_runs"
"""A column of the summary that is being made: the runs of the method with fewer of the two compared."""

Row = dict[str, object]


def summarise(places: Places, baseline: str | None = None, equal_within: float | None = None) -> pl.DataFrame:
    """Summarise a study, one row per method, candidate origin and measure: the tables in `summary.csv` and, of
    seconds and memory, `costs.csv`.

    Each method is compared, within its ranker, collection, origin and measure, with the best baseline
    (`best_baselines`). Rows of ranker "bm25" hold the figures of BM25 alone over the same candidates, and rows without
    runs those of a ranker before its training, with an interval over queries. Rows are by
    collection, origin, measure, ranker, and mean from the highest. What cannot be computed is null.

    Args:
        baseline: a method to compare all others with as well, as "policy=fixed function=bm25
            selector=uniform"; with "ranker=…" the methods of all rankers are compared with that ranker's.
        equal_within: the margin of the tests of equivalence; None makes none.
    """
    named = Baseline(places, baseline)
    columns = ["run", *(name for name in (*COSTS, *budget_of(places.trials), "cut") if name in places.trials.columns)]
    spent = dict(zip(places.trials["run"], places.trials.select(columns).iter_rows(named=True), strict=True))
    rows: list[Row] = []
    columns_of = itemgetter(*COLUMN)
    for _, together in groupby(places.in_order(), key=lambda place: columns_of(place.key)):
        beside = list(together)
        for place in beside:
            rows += _of_place(place, named.of(place, beside), spent, equal_within)
        rows += _first_stage(beside)
    schema = _schema(places.columns, baseline is not None, budget_of(places.trials))
    frame = pl.DataFrame(rows, schema=schema).fill_nan(None)
    prefixes = ("", "baseline_") if baseline is not None else ("",)
    enough = [test for prefix in prefixes for test in _with_enough(prefix)]
    return frame.with_columns(enough).drop(f"{prefix}{LEAST}" for prefix in prefixes).with_columns(marks=marks())


class Baseline:
    """The method that a user names to compare all others with.

    Args:
        named: the method in words; None if there is none.
    """

    def __init__(self, places: Places, named: str | None) -> None:
        self.method, self.rankers = ("", set[str]()) if named is None else places.named(named)
        self.is_of_one_ranker = any(part.startswith("ranker=") for part in (named or "").split())

    def of(self, place: Place, beside: Sequence[Place]) -> dict[str, MethodRuns]:
        """Return what each method of a place is compared with.

        Args:
            beside: the places of all rankers, on the same collection, origin and measure.
        """
        if self.method == UNTRAINED:
            twins = {method: untrained_twin(runs, place.results) for method, runs in place.methods.items()}
            return {method: twin for method, twin in twins.items() if twin is not None}
        among = beside if self.is_of_one_ranker else [place]
        able = [other.methods.get(self.method) for other in among if other.key["ranker"] in self.rankers]
        return {method: runs for runs in able if runs is not None and len(runs.values) for method in place.methods}


def _of_place(
    place: Place, fixed: Mapping[str, MethodRuns], spent: Mapping[str, Row], equal_within: float | None
) -> list[Row]:
    """Return the rows of the methods of a place, and those of its ranker before its training."""
    family, key = sorted(place.methods.values(), key=lambda runs: runs.rank), {name: place.key[name] for name in COLUMN}
    opponents = {"": ("against", best_baselines(family)), "baseline_": ("baseline", fixed)}
    compared = [
        (name, prefix, against, compare(family, against, place.by_query, equal_within))
        for prefix, (name, against) in opponents.items()
    ]
    rows: list[Row] = []
    for runs in family:
        # Its resamples depend on what a row is about alone, not on which other rows there are.
        row: Row = {**key, **runs.identity, **_spread(runs, np.random.default_rng([0, _about(place, runs.method)]))}
        row |= _costs([spent[run.name] for run in runs.runs])
        for name, prefix, against, tests in compared:
            row |= _against(name, prefix, runs, against.get(runs.method), tests.get(runs.method, {}))
        rows.append(row)
    cut = {"cut": rows[-1]["cut"]}
    before = untrained_rows(place.results, place.columns, place.by_query, _about(place, UNTRAINED))
    return rows + [{**key, **row, **cut} for row in before]


def _about(place: Place, method: str) -> int:
    """Return a number that names a row."""
    return crc32("\n".join((*(place.key[name] for name in COLUMN), place.key["ranker"], method)).encode())


def _against(name: str, prefix: str, runs: MethodRuns, other: MethodRuns | None, tests: Mapping[str, float]) -> Row:
    """Return a method's comparison with an opponent, for a row; nothing if there is none."""
    if other is None or not tests:
        return {}
    least = min(len(runs.runs), len(other.runs))
    return {name: other.method, f"{prefix}{LEAST}": least, **{prefix + test: p for test, p in tests.items()}}


def _with_enough(prefix: str) -> Iterable[pl.Expr]:
    """Return the tests without those for which there are too few seeds, or runs."""
    for unit, tests in (("pairs", PAIRED_TESTS), (LEAST, UNPAIRED_TESTS)):
        yield pl.when(pl.col(f"{prefix}{unit}") >= LEAST_SEEDS).then(pl.col([prefix + test for test in tests]))


def _costs(runs: Sequence[Row]) -> Row:
    """Return what the runs of a method cost, and what they have of their checkpoint."""
    named = [name for name in (*COSTS, *BUDGET) if runs and name in runs[0]]
    known: dict[str, list[Any]] = {name: [run[name] for run in runs if run[name] is not None] for name in named}
    middle = {"seconds": np.median}
    costs: Row = {name: float(middle.get(name, np.mean)(values)) for name, values in known.items() if values}
    cuts = dict.fromkeys(str(run["cut"]) for run in runs if run.get("cut"))
    return costs | {"cut": "; ".join(cuts) or None}


def marks(prefix: str = "") -> pl.Expr:
    """Return the marks of what differs: "*" by the test over seeds and queries (or over seeds, if values per query are
    not known), "‡" by Student's t-test, "†" by Kolmogorov-Smirnov. Fewer than LEAST_SEEDS pairs, or runs, have none."""
    both, paired, t, ks = (pl.col(prefix + name) for name in ("p_both", "paired_p_holm", "t_p_holm", "ks_p_holm"))
    leading = pl.when(both.is_null()).then(paired).otherwise(pl.col(f"{prefix}p_both_holm"))
    tests = {"*": leading, "‡": t, "†": ks}
    shown = (pl.when(p < LEVEL).then(pl.lit(mark)).otherwise(pl.lit("")) for mark, p in tests.items())
    return pl.concat_str(shown)


def _spread(runs: MethodRuns, generator: np.random.Generator) -> Row:
    """Return the mean of runs and how far they spread, nan if they have none."""
    values = runs.values
    low, high = bootstrap_interval(values, generator)
    samples = {
        "": values,
        "trained_": np.sort(list((Counter(values.tolist()) - Counter(runs.diverged)).elements())),
        "all_": np.sort(np.concatenate([values, np.zeros(runs.failed)])),
        "interpolated_": np.array(runs.interpolated),
    }
    least, most = values[[0, -1]].tolist() if len(values) else (NAN, NAN)
    spread: Row = {"runs": len(values), "failed": runs.failed, "diverged": len(runs.diverged), "min": least,
                   "max": most, "ci_low": low, "ci_high": high}  # fmt: skip
    for name, sample in samples.items():
        spread |= {f"{name}mean": _mean(sample), f"{name}std": deviation(sample)}
    return spread


def _mean(sample: Floats) -> float:
    return float(sample.mean()) if len(sample) else NAN


def _first_stage(beside: Sequence[Place]) -> list[Row]:
    """Return the row of the first stage alone over the same candidates: one value if all runs agree, as they do on one
    split."""
    key = {name: beside[0].key[name] for name in COLUMN}
    values = pl.concat([place.results["bm25"] for place in beside]).drop_nulls().sort().to_numpy()
    if not len(values):
        return []
    values = values if np.ptp(values) > 1e-12 else values[:1]
    method = BM25 if first_stage_of(key["candidates"]) == "BM25" else RUN
    identity = {**dict.fromkeys(beside[0].columns, "-"), "ranker": "bm25", "method": method}
    spread = _spread(MethodRuns(identity, [MeasuredRun(value) for value in values]), np.random.default_rng(0))
    return [{**key, **identity, **spread, "ci_low": None, "ci_high": None}]


def budget_of(frame: pl.DataFrame) -> list[str]:
    """Return the columns of `BUDGET` in a table; none if nothing trained but Pyrite."""
    trained_elsewhere = "examples" in frame.columns and frame["examples"].is_not_null().any()
    return [*BUDGET] if trained_elsewhere else []


def _schema(columns: list[str], baseline: bool, budget: Sequence[str]) -> dict[str, pl.DataType]:
    text, number = pl.String(), pl.Float64()
    schema: dict[str, pl.DataType] = dict.fromkeys(("collection", *columns), text)
    schema |= dict.fromkeys(("measure", "candidates", "cut"), text)
    schema |= dict.fromkeys(("runs", "failed", "diverged"), pl.Int64())
    schema |= dict.fromkeys(("mean", "std", "min", "max", "ci_low", "ci_high"), number)
    schema |= dict.fromkeys((*COSTS, *budget), number)
    schema |= {f"{name}_{figure}": number for name in ("trained", "all", "interpolated") for figure in ("mean", "std")}
    tests = {**dict.fromkeys(TESTS, number), "pairs": pl.Int64(), LEAST: pl.Int64()}
    schema |= {"against": text, **tests, "marks": text}
    if baseline:
        schema |= {"baseline": text, **{f"baseline_{name}": kind for name, kind in tests.items()}}
    return schema


def baseline_of(summary: pl.DataFrame) -> str | None:
    """Return the method that is the study's baseline; None if it has none."""
    named = summary["baseline"].drop_nulls() if "baseline" in summary.columns else pl.Series([], dtype=pl.String)
    return None if named.is_empty() else str(named[0])
