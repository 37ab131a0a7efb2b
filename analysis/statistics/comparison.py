"""Tests whether the methods of one ranker differ, on one collection, origin and measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import LABEL, UNTRAINED, column_of, is_learned
from pyrite.analysis.statistics.crossed import NAN, CrossedDifference, Floats, crossed_difference, mean
from pyrite.analysis.statistics.paired import (
    LEAST_PAIRS,
    UNKNOWN,
    MeasuredRun,
    agent_cells,
    are_means,
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
LEAST_SEEDS = LEAST_PAIRS
"""Seeds that both methods must have before a difference is marked."""
TESTS = (
    "difference", "pairs", "low_both", "high_both", "p_both", "p_both_holm", "equal_p", "paired_p", "paired_p_holm",
    "sign_p", "sign_p_holm", "t_p", "t_p_holm", "ks_p", "ks_p_holm", "effect",
)  # fmt: skip
"""Columns of a comparison, the test over seeds and queries first."""
ADJUSTED = ("p_both", "paired_p", "sign_p", "t_p", "ks_p")
"""The tests that are adjusted for the number of distinct comparisons."""
TURNED = {"difference": "difference", "low_both": "high_both", "high_both": "low_both", "effect": "effect"}
"""The columns of the other method of a pair: each is the negative of a column."""


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
    def agents(self) -> set[str]:
        """The seeds with which the agents of the runs were learned."""
        return {run.agent for run in self.runs}

    @property
    def seeds(self) -> set[int]:
        """The seeds of the runs."""
        return {run.seed for run in self.runs}

    @property
    def mean(self) -> float:
        return mean(self.values)

    @property
    def rank(self) -> tuple[float, str]:
        """The key that sorts methods by mean from the highest, those without runs last."""
        return -self.mean if len(self.values) else math.inf, self.method


def unit_of(one: MethodRuns, two: MethodRuns, pairs: int) -> str:
    """Return what a number of pairs of two methods counts: agents if one has several, runs if seeds have several
    settings, or else seeds."""
    if max(len(one.agents), len(two.agents)) > 1:
        return "agents"
    return "runs" if pairs > len(one.seeds | two.seeds) else "seeds"


def methods_of(results: pl.DataFrame, identity: Sequence[str]) -> dict[str, MethodRuns]:
    """Collect the runs of every method in one place, by its name, from rows of `measurements`."""
    methods = results.partition_by("method", as_dict=True)
    return {str(name): _method(rows, identity) for (name,), rows in methods.items()}


def _method(rows: pl.DataFrame, identity: Sequence[str]) -> MethodRuns:
    done = rows.drop_nulls("value")
    settings = [{pair["key"]: pair["value"] for pair in pairs} for pairs in done["settings"]]
    runs = map(MeasuredRun, done["value"], done["seed"], done["agent"], settings, done["run"])
    return MethodRuns(
        rows.select(identity).row(0, named=True),
        list(runs),
        int((rows["status"] == "failed").sum()),
        done.filter("diverged")["value"].sort().to_list(),
        done["interpolated"].drop_nulls().sort().to_list(),
    )


def best_baselines(family: Sequence[MethodRuns]) -> dict[str, MethodRuns]:
    """Find for each method the best of the others that are not learned (Cohen et al. 2019, table 1); so the best
    baseline itself is compared with the runner-up."""
    best, other, *_ = [*baselines(family), None, None]
    found = {runs.method: other if runs is best else best for runs in family}
    return {method: against for method, against in found.items() if against is not None}


def baselines(family: Iterable[MethodRuns]) -> list[MethodRuns]:
    """Return the methods with runs that are not learned, by mean from the highest; those with too few to test last."""
    able = [runs for runs in family if not is_learned(runs.identity) and len(runs.values)]
    return sorted(able, key=lambda runs: (len(runs.values) < LEAST_SEEDS, runs.rank))


def compare(
    family: Sequence[MethodRuns],
    against: Mapping[str, MethodRuns],
    by_query: Mapping[str, Floats] = UNKNOWN,
    equal_within: float | None = None,
) -> dict[str, dict[str, float]]:
    """Test each method against its opponent, and adjust for the number of distinct comparisons by Holm's method.

    Args:
        against: the opponent by method; methods without an opponent other than themselves are not compared.
        by_query: the values of each run by query, by its name; empty if they are not known.
        equal_within: the margin of the test of equivalence; None makes none.

    Returns:
        For each compared method the columns of TESTS; nan if a test cannot be made.
    """
    able = [runs for runs in family if len(runs.values) and against.get(runs.method, runs) is not runs]
    # The best two are each other's opponents, which is one comparison.
    pairs = {frozenset((a.method, against[a.method].method)): a for a in able}
    tests = {
        (a.method, against[a.method].method): _tests(a, against[a.method], by_query, equal_within)
        for a in pairs.values()
    }
    adjust(list(tests.values()), ADJUSTED)
    # Two rankers may have methods of the same name: the test itself is taken, not one that is turned.
    rows = {(b, a): _turned(test) for (a, b), test in tests.items()} | tests
    return {a.method: rows[a.method, against[a.method].method] for a in able}


def adjust(rows: Sequence[dict[str, Any]], names: Iterable[str]) -> None:
    """Add to the tests of one family p adjusted by Holm's method, under `NAME_holm`."""
    for name in names:
        for row, p in zip(rows, holm([row[name] for row in rows]), strict=True):
            row[f"{name}_holm"] = float(p)


def _tests(
    a: MethodRuns, b: MethodRuns, by_query: Mapping[str, Floats], equal_within: float | None
) -> dict[str, float]:
    """Return the tests of a pair by the names of TESTS, without those that are adjusted for others."""
    both, paired = compare_both(a, b, by_query), differences(a.runs, b.runs)
    # Of what is tested, so that no difference is outside its interval, nor has the other sign than its test, where
    # runs failed; the difference of the means if nothing is paired.
    difference = next(filter(math.isfinite, (both.mean, mean(paired), a.mean - b.mean)), NAN)
    reach = both.high - both.mean
    return dict.fromkeys(TESTS, NAN) | {
        "difference": difference,
        "pairs": len(paired),
        "low_both": both.mean - reach,
        "high_both": both.mean + reach,
        "p_both": both.p,
        "equal_p": NAN if equal_within is None else both.p_equal(equal_within),
        **_tests_of_runs(a.runs, b.runs),
        "effect": effect_size(a.values, b.values),
    }


def _turned(test: Mapping[str, float]) -> dict[str, float]:
    """Return the tests of a pair for its other method."""
    return {**test, **{name: -test[column] for name, column in TURNED.items()}}


def compare_both(a: MethodRuns, b: MethodRuns, by_query: Mapping[str, Floats]) -> CrossedDifference:
    """Compare two methods over seeds and queries, and over agents if one has several; UNTESTED if there are too few.

    If the values per query are not known, agents are compared over seeds alone, and other methods not at all.
    """
    if not {run.name for run in (*a.runs, *b.runs)} <= by_query.keys():
        return crossed_difference(agent_cells(a.runs, b.runs))
    cells = agent_cells(a.runs, b.runs, by_query)
    if min(cells.shape) < 2:
        cells = differences(a.runs, b.runs, by_query)
    return crossed_difference(known_queries(cells))


def known_queries(cells: Floats) -> Floats:
    """Return differences without the queries for which some are not known."""
    missing = np.isnan(np.atleast_2d(cells))
    return cells[..., ~missing.any(tuple(range(missing.ndim - 1)))]


def _tests_of_runs(a: Sequence[MeasuredRun], b: Sequence[MeasuredRun]) -> dict[str, float]:
    """Return p of the paired t-test, the sign test, Student's t-test, and Kolmogorov and Smirnov's test."""
    paired, crossed = differences(a, b), crossed_difference(agent_cells(a, b))
    zero = np.zeros(len(paired))
    means = are_means(a) or are_means(b)  # which spread less than runs, whatever the methods do
    return {
        "paired_p": crossed.p if crossed.is_known else paired_t_test(paired, zero),
        "sign_p": sign_test(paired, zero),
        "t_p": t_test(units(a), units(b)),
        "ks_p": NAN if means else kolmogorov_smirnov(units(a), units(b)),
    }


def named_baseline(methods: pl.DataFrame, baseline: str) -> tuple[str, set[str]]:
    """Find the method that a user names as the baseline.

    Args:
        methods: one row per ranker and method: method, ranker, policy, function, selector and swept names.
        baseline: the label of a method, key=value pairs that only one method has, as "policy=fixed function=bm25", or
            "before training".

    Returns:
        The method, and the rankers to compare with it: all that have it, unless `ranker=…` names one.
    """
    matching = methods.filter(methods.get_column(LABEL, default=pl.lit(None)) == baseline)
    if matching.is_empty() and baseline == UNTRAINED:
        return UNTRAINED, set(methods["ranker"])
    if matching.is_empty():
        matching = _with_pairs(methods, baseline)
    names = matching["method"].unique()
    if len(names) != 1:
        matched = f"names {len(names)} methods" if len(names) else "names no method of this study"
        raise BadInput(matched, f"baseline={baseline}", _remedy(methods))
    return str(names[0]), set(matching["ranker"])


def _with_pairs(methods: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """Return the methods that have the key=value pairs of a baseline."""
    columns = [name for name in methods.columns if name != "method"]
    for part in baseline.split():
        key, _, value = part.partition("=")
        column = column_of(key) if column_of(key) in columns else key
        if column not in columns:
            known = "=…, ".join(columns)
            raise BadInput(f"{part!r} is not one of {known}=…", f"baseline={baseline}", _remedy(methods))
        methods = methods.filter(pl.col(column) == value)
    return methods


def _remedy(methods: pl.DataFrame) -> str:
    known = methods.drop("method", "ranker").unique().sort(pl.all()).iter_rows(named=True)
    lines = [" ".join(f"{key}={value}" for key, value in row.items() if value != "-") for row in known]
    return f"choose from: {'; '.join(lines)}"
