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
from operator import attrgetter
from zlib import crc32

import numpy as np
import polars as pl
from polars.selectors import by_name

from pyrite.analysis.methods import ALONE, UNTRAINED, first_stage_of
from pyrite.analysis.statistics.before_training import untrained_rows, untrained_twin
from pyrite.analysis.statistics.comparison import LEAST_SEEDS, LEVEL, TESTS, MethodRuns, best_baselines, compare
from pyrite.analysis.statistics.crossed import deviation, mean
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

LEAST = "least_runs"
"""A column of the summary that is being made: the runs of the method with fewer of the two compared."""
TEXT, NUMBER, WHOLE = pl.String(), pl.Float64(), pl.Int64()
SPENT = {"run": TEXT, **dict.fromkeys((*COSTS, *BUDGET), NUMBER), "cut": TEXT}
"""What is read of the trials; a study may lack some of it."""
TESTED = {**dict.fromkeys(TESTS, NUMBER), "pairs": WHOLE, LEAST: WHOLE}
"""The columns of a comparison with an opponent."""
AGAINST_BASELINE = {
    "baseline": TEXT,
    "baseline_ranker": TEXT,
    **{f"baseline_{name}": kind for name, kind in TESTED.items()},
}
"""The columns of the comparison with the baseline that the user names."""
NO_BASELINE = pl.Series("baseline", [], dtype=pl.String)
OPPONENT = {"": "against", "baseline_": "baseline"}
"""The column of the opponent's name, by the start of those of its tests."""

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
    budget = budget_of(places.trials)
    known = places.trials.select(by_name(*SPENT, require_all=False))
    spent = pl.concat([pl.DataFrame(schema=SPENT), known], how="diagonal_relaxed")
    rows: list[Row] = []
    for _, together in groupby(places.in_order(), key=attrgetter("column")):
        beside = list(together)
        for place in beside:
            rows += _of_place(place, named.of(place, beside), spent, equal_within)
        rows += _first_stage(beside)
    frame = pl.DataFrame(rows, schema=_schema(places.columns, budget)).fill_nan(None)
    enough = frame.with_columns(*_with_enough(""), *_with_enough("baseline_")).drop(LEAST, f"baseline_{LEAST}")
    return enough.drop(AGAINST_BASELINE if baseline is None else (), strict=False).with_columns(marks=marks())


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
        able = [other.finished for other in among if other.key["ranker"] in self.rankers]
        return {
            method: finished[self.method] for finished in able if self.method in finished for method in place.methods
        }


def _of_place(
    place: Place, fixed: Mapping[str, MethodRuns], spent: pl.DataFrame, equal_within: float | None
) -> list[Row]:
    """Return the rows of the methods of a place, and those of its ranker before its training."""
    family = sorted(place.methods.values(), key=lambda runs: runs.rank)
    done = place.results.drop_nulls("value")
    best = _against("", best_baselines(family), family, place, equal_within)
    named = _against("baseline_", fixed, family, place, equal_within)
    rows: list[Row] = []
    for runs in family:
        # Its resamples depend on what a row is about alone, not on which other rows there are.
        spread = _spread(runs, np.random.default_rng([0, _about(place, runs.method)]))
        costs = _costs(spent.join(done.filter(method=runs.method), on="run", how="semi", maintain_order="left"))
        rows.append(
            {**place.column, **runs.identity, **spread, **costs}
            | best.get(runs.method, {}) | named.get(runs.method, {})
        )  # fmt: skip
    before = untrained_rows(place.results, place.columns, place.by_query, _about(place, UNTRAINED))
    return rows + [{**place.column, **row, "cut": rows[-1]["cut"]} for row in before]


def _about(place: Place, method: str) -> int:
    """Return a number that names a row."""
    return crc32("\n".join((*place.column.values(), place.key["ranker"], method)).encode())


def _against(
    prefix: str, against: Mapping[str, MethodRuns], family: Sequence[MethodRuns], place: Place, within: float | None
) -> dict[str, Row]:
    """Return each method's comparison with its opponent, for its row."""
    compared: dict[str, Row] = {}
    for method, tests in compare(family, against, place.by_query, within).items():
        other = against[method]
        least = min(len(place.methods[method].runs), len(other.runs))
        compared[method] = {OPPONENT[prefix]: other.method, f"{prefix}{LEAST}": least}
        compared[method] |= {"baseline_ranker": other.identity["ranker"]} if prefix else {}
        compared[method] |= {prefix + test: p for test, p in tests.items()}
    return compared


def _with_enough(prefix: str) -> Iterable[pl.Expr]:
    """Return the tests without those for which there are too few seeds, or runs."""
    for unit, tests in (("pairs", PAIRED_TESTS), (LEAST, UNPAIRED_TESTS)):
        yield pl.when(pl.col(f"{prefix}{unit}") >= LEAST_SEEDS).then(pl.col([prefix + test for test in tests]))


def _costs(spent: pl.DataFrame) -> Row:
    """Return what the runs of a method cost, and what they have of their checkpoint."""
    means = {name: mean(spent[name].drop_nulls().to_numpy()) for name in (*COSTS, *BUDGET)}
    cuts = spent["cut"].drop_nulls().unique(maintain_order=True)
    return {**means, "seconds": spent["seconds"].median(), "cut": "; ".join(cuts) or None}


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
    ordered = pl.Series(values)
    spread: Row = {"runs": len(values), "failed": runs.failed, "diverged": len(runs.diverged), "min": ordered.min(),
                   "max": ordered.max(), "ci_low": low, "ci_high": high}  # fmt: skip
    for name, sample in samples.items():
        spread |= {f"{name}mean": mean(sample), f"{name}std": deviation(sample)}
    return spread


def _first_stage(beside: Sequence[Place]) -> list[Row]:
    """Return the row of the first stage alone over the same candidates: one value if all runs agree, as they do on one
    split."""
    column = beside[0].column
    values = pl.concat([place.results["bm25"] for place in beside]).drop_nulls().sort().to_numpy()
    if not len(values):
        return []
    values = values if np.ptp(values) > 1e-12 else values[:1]
    method = ALONE.format(first_stage_of(column["candidates"]))
    identity = {**dict.fromkeys(beside[0].columns, "-"), "ranker": "bm25", "method": method}
    spread = _spread(MethodRuns(identity, [MeasuredRun(value) for value in values]), np.random.default_rng(0))
    return [{**column, **identity, **spread, "ci_low": None, "ci_high": None}]


def budget_of(frame: pl.DataFrame) -> list[str]:
    """Return the columns of `BUDGET` in a table; none if nothing trained but Pyrite."""
    trained_elsewhere = "examples" in frame.columns and frame["examples"].is_not_null().any()
    return [*BUDGET] if trained_elsewhere else []


def _schema(columns: list[str], budget: Sequence[str]) -> dict[str, pl.DataType]:
    schema: dict[str, pl.DataType] = dict.fromkeys(("collection", *columns), TEXT)
    schema |= dict.fromkeys(("measure", "candidates", "cut"), TEXT)
    schema |= dict.fromkeys(("runs", "failed", "diverged"), WHOLE)
    schema |= dict.fromkeys(("mean", "std", "min", "max", "ci_low", "ci_high"), NUMBER)
    schema |= dict.fromkeys((*COSTS, *budget), NUMBER)
    schema |= {f"{name}_{figure}": NUMBER for name in ("trained", "all", "interpolated") for figure in ("mean", "std")}
    return schema | {"against": TEXT, **TESTED, "marks": TEXT, **AGAINST_BASELINE}


def baseline_of(summary: pl.DataFrame) -> str | None:
    """Return the method that is the study's baseline; None if it has none."""
    return summary.get_column("baseline", default=NO_BASELINE).drop_nulls().first()  # type: ignore[return-value]
