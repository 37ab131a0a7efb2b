"""Tests whether the methods of one ranker differ, on one collection, origin and measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from pyrite.analysis.methods import LABEL, UNTRAINED, column_of, evaluations, is_learned, measurements
from pyrite.analysis.statistics.paired import (
    CrossedDifference,
    Floats,
    MeasuredRun,
    agent_cells,
    are_means,
    crossed_difference,
    differences,
    units,
)
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.significance import (
    effect_size,
    holm,
    kolmogorov_smirnov,
    paired_t_test,
    sign_test,
    t_test,
)

LEVEL = 0.05
LEAST_SEEDS = 3
"""Seeds that both methods must have before a difference is marked: two have one degree of freedom."""
TESTS = (
    "difference", "pairs", "low_both", "high_both", "p_both", "p_both_holm", "equal_p", "paired_p", "paired_p_holm",
    "sign_p", "sign_p_holm", "t_p", "t_p_holm", "ks_p", "ks_p_holm", "effect",
)  # fmt: skip
"""Columns of a comparison, the test over seeds and queries first."""


@dataclass(frozen=True)
class MethodRuns:
    """The runs of one method in one family.

    Args:
        identity: ranker, policy, function, selector, swept names, and method, the short name of all that.
        diverged: the values of finished runs whose training diverged.
        interpolated: the values of finished runs with their scores and the first stage's together.
    """

    identity: Mapping[str, str]
    runs: Sequence[MeasuredRun]
    failed: int = 0
    diverged: Sequence[float] = ()
    interpolated: Sequence[float] = ()

    @cached_property
    def values(self) -> Floats:
        """The runs' values, ascending, so that no figure depends on the order of trials."""
        return np.sort(np.array([run.value for run in self.runs], np.float64))

    @property
    def method(self) -> str:
        return self.identity["method"]

    @property
    def mean(self) -> float:
        return float(self.values.mean()) if len(self.values) else math.nan


def methods_of(results: pl.DataFrame, identity: Sequence[str]) -> dict[str, MethodRuns]:
    """Collect the runs of every method in one place, by its name, from rows of `measurements`."""
    methods = {}
    for (name,), rows in results.partition_by("method", as_dict=True).items():
        done = rows.drop_nulls("value")
        runs = [
            MeasuredRun(value, seed, agent, {pair["key"]: pair["value"] for pair in settings}, run)
            for value, seed, agent, settings, run in done.select(
                "value", "seed", "agent", "settings", "run"
            ).iter_rows()
        ]
        methods[str(name)] = MethodRuns(
            {column: rows[0, column] for column in identity},
            runs,
            int((rows["status"] == "failed").sum()),
            done.filter("diverged")["value"].sort().to_list(),
            done["interpolated"].drop_nulls().sort().to_list(),
        )
    return methods


def families(
    trials: pl.DataFrame, evaluated: Iterable[tuple[str, str]] | None = None, finished: bool = False
) -> Iterator[tuple[dict[str, str], pl.DataFrame]]:
    """Yield each place (collection, ranker, candidates, measure) with its rows of `measurements`.

    Args:
        evaluated: the origins and measures; None takes the leading ones.
        finished: whether failed runs are left out.
    """
    every = measurements(trials)
    every = every.drop_nulls("value") if finished else every
    for candidates, measure in evaluations(trials)[:1] if evaluated is None else evaluated:
        here = every.filter(candidates=candidates, measure=measure)
        for (collection, ranker), family in here.partition_by("collection", "ranker", as_dict=True).items():
            place = {"collection": collection, "ranker": ranker, "candidates": candidates, "measure": measure}
            yield place, family


def best_baselines(family: Sequence[MethodRuns]) -> dict[str, MethodRuns]:
    """Find for each method the best of the others that are not learned (Cohen et al. 2019, table 1); so the best
    baseline itself is compared with the runner-up."""
    ranked = baselines(family)
    best = {runs.method: next((other for other in ranked if other is not runs), None) for runs in family}
    return {method: other for method, other in best.items() if other is not None}


def baselines(family: Iterable[MethodRuns]) -> list[MethodRuns]:
    """Return the methods with runs that are not learned, the highest mean first."""
    able = [runs for runs in family if not is_learned(runs.identity) and len(runs.values)]
    return sorted(able, key=lambda runs: (-runs.mean, runs.method))


def compare(
    family: Sequence[MethodRuns],
    against: Mapping[str, MethodRuns],
    by_query: Mapping[str, Floats] | None = None,
    equal_within: float | None = None,
) -> dict[str, dict[str, float | None]]:
    """Test each method against its opponent, and adjust for the number of distinct comparisons by Holm's method.

    Args:
        against: the opponent by method; methods without an opponent other than themselves are not compared.
        by_query: the values of each run by query, by its name; None if they are not known.
        equal_within: the margin of the test of equivalence; None makes none.

    Returns:
        For each compared method the columns of TESTS; None if a test cannot be made.
    """
    opponents = {
        runs.method: (runs, against[runs.method])
        for runs in family
        if runs.method in against and against[runs.method] is not runs and len(runs.values)
    }
    # The best two are each other's opponents, which is one comparison.
    pairs = {frozenset((a.method, b.method)): (a, b) for a, b in opponents.values()}
    both = {pair: compare_both(a, b, by_query) for pair, (a, b) in pairs.items()}
    columns: list[Floats] = []
    p_both = [math.nan if test is None else test.p for test in both.values()]
    for p in (p_both, *zip(*(_tests_of_runs(a.runs, b.runs) for a, b in pairs.values()), strict=True)):
        columns += [np.array(p), holm(p)]
    tested = dict(zip(pairs, zip(*columns, strict=True), strict=True))
    rows = {}
    for method, (a, b) in opponents.items():
        pair = frozenset((method, b.method))
        p_of_both, p_of_both_holm, *p_values = tested[pair]
        test = both[pair]
        reach = math.nan if test is None else test.high - test.mean
        equal = math.nan if test is None or equal_within is None else test.p_equal(equal_within)
        # Of the mean over the pairs, which is the difference of the means if all runs are paired.
        mean = math.nan if test is None else test.mean if a is pairs[pair][0] else -test.mean
        numbers = (mean - reach, mean + reach, p_of_both, p_of_both_holm, equal, *p_values)
        row = dict(zip(TESTS[2:-1], numbers, strict=True)) | {"effect": effect_size(a.values, b.values)}
        row = {name: None if math.isnan(number) else float(number) for name, number in row.items()}
        rows[method] = {"difference": a.mean - b.mean, "pairs": len(differences(a.runs, b.runs)), **row}
    return rows


def compare_both(a: MethodRuns, b: MethodRuns, by_query: Mapping[str, Floats] | None) -> CrossedDifference | None:
    """Compare two methods over seeds and queries, and over agents if one has several; None if there are too few.

    If the values per query are not known, agents are compared over seeds alone, and other methods not at all.
    """
    known = by_query is not None and all(run.name in by_query for runs in (a, b) for run in runs.runs)
    values = by_query if known else None
    cells = agent_cells(a.runs, b.runs, values)
    if cells is None:
        cells = differences(a.runs, b.runs, values) if known else np.zeros(0)
    if known and cells.ndim > 1:
        cells = cells[..., ~np.isnan(cells).any(tuple(range(cells.ndim - 1)))]
    return crossed_difference(cells)


def _tests_of_runs(a: Sequence[MeasuredRun], b: Sequence[MeasuredRun]) -> tuple[float, ...]:
    """Return p of the paired t-test, the sign test, Student's t-test, and Kolmogorov and Smirnov's test."""
    paired, cells = differences(a, b), agent_cells(a, b)
    zero = np.zeros(len(paired))
    crossed = None if cells is None else crossed_difference(cells)
    # Means of several runs of an agent spread less than runs, whatever the methods do.
    ks = math.nan if are_means(a) or are_means(b) else kolmogorov_smirnov(units(a), units(b))
    p = paired_t_test(paired, zero) if crossed is None else crossed.p
    return p, sign_test(paired, zero), t_test(units(a), units(b)), ks


def named_baseline(methods: pl.DataFrame, baseline: str) -> tuple[str, set[str]]:
    """Find the method that a user names as the baseline.

    Args:
        methods: one row per ranker and method: method, ranker, policy, function, selector and swept names.
        baseline: the label of a method, key=value pairs that only one method has, as "policy=fixed function=bm25", or
            "before training".

    Returns:
        The method, and the rankers to compare with it: all that have it, unless `ranker=…` names one.
    """
    columns = [name for name in methods.columns if name != "method"]
    known = methods.drop("method", "ranker").unique().sort(pl.all()).iter_rows(named=True)
    lines = [" ".join(f"{key}={value}" for key, value in row.items() if value != "-") for row in known]
    remedy = "choose from: " + "; ".join(lines)
    matching = methods
    labelled = LABEL in columns and baseline in set(methods[LABEL])
    if baseline == UNTRAINED and not labelled:
        return UNTRAINED, set(methods["ranker"])
    if labelled:
        matching = methods.filter(pl.col(LABEL) == baseline)
    for part in [] if labelled else baseline.split():
        key, _, value = part.partition("=")
        column = column_of(key) if column_of(key) in columns else key
        if column not in columns:
            raise BadInput(f"{part!r} is not one of {'=…, '.join(columns)}=…", f"baseline={baseline}", remedy)
        matching = matching.filter(pl.col(column) == value)
    names = matching["method"].unique()
    if len(names) != 1:
        matched = f"names {len(names)} methods" if len(names) else "names no method of this study"
        raise BadInput(matched, f"baseline={baseline}", remedy)
    return str(names[0]), set(matching["ranker"])
