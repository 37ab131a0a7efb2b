"""Tests whether the methods of one ranker differ, on one collection, origin and measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cluster.output.methods import column_of, is_learned
from ranking.errors import BadInput
from ranking.evaluation.significance import effect_size, holm, kolmogorov_smirnov, t_test

TESTS = ("difference", "t_p", "t_p_holm", "ks_p", "ks_p_holm", "effect")


@dataclass(frozen=True)
class Runs:
    """The runs of one method in one family.

    Args:
        identity: ranker, policy, function, selector, swept names, and method, the short name of all that.
        values: what the done runs reached, ascending, so that no figure depends on the order of trials.
        failed: how many runs failed.
    """

    identity: Mapping[str, str]
    values: np.ndarray
    failed: int

    @property
    def method(self) -> str:
        return self.identity["method"]

    @property
    def mean(self) -> float:
        return float(self.values.mean()) if len(self.values) else math.nan


def best_baselines(family: Sequence[Runs]) -> dict[str, Runs]:
    """For each method the best of the others that a learned policy would have to beat.

    That is the highest mean among the other methods that are not learned (Cohen et al. 2019, table 1); so the
    best baseline itself is compared with the runner-up.
    """
    able = [runs for runs in family if not is_learned(runs.identity) and len(runs.values)]
    ranked = sorted(able, key=lambda runs: (-runs.mean, runs.method))
    best = {runs.method: next((other for other in ranked if other is not runs), None) for runs in family}
    return {method: other for method, other in best.items() if other is not None}


def compare(family: Sequence[Runs], against: Mapping[str, Runs]) -> dict[str, dict[str, float | None]]:
    """Test each method against its opponent, and adjust for the number of distinct comparisons.

    The best method and the runner-up are each other's opponents: that is one comparison, and Holm's
    adjustment counts it once.

    Args:
        against: the opponent by method; methods without one, or that are their own, are not compared.

    Returns:
        For each compared method the columns of TESTS; None where a test cannot be made.
    """
    opponents = {
        runs.method: (runs, against[runs.method])
        for runs in family
        if runs.method in against and against[runs.method] is not runs and len(runs.values)
    }
    pairs = {frozenset((a.method, b.method)): (a.values, b.values) for a, b in opponents.values()}
    t = [t_test(a, b) for a, b in pairs.values()]
    ks = [kolmogorov_smirnov(a, b) for a, b in pairs.values()]
    tested = dict(zip(pairs, zip(t, holm(t), ks, holm(ks), strict=True), strict=True))
    rows = {}
    for method, (a, b) in opponents.items():
        numbers = (a.mean - b.mean, *tested[frozenset((method, b.method))], effect_size(a.values, b.values))
        rows[method] = {
            name: None if math.isnan(number) else float(number) for name, number in zip(TESTS, numbers, strict=True)
        }
    return rows


def named_baseline(methods: pl.DataFrame, baseline: str) -> tuple[str, set[str]]:
    """Find the method that a user names as the baseline.

    Args:
        methods: one row a ranker and method: method, ranker, policy, function, selector and swept names.
        baseline: key=value pairs that one method alone has, as "policy=fixed function=bm25 selector=uniform".

    Returns:
        The method, and the rankers that are to be compared with it: all that have it, unless ranker=… says.

    Raises:
        BadInput: a key is unknown, or no method or several have these values.
    """
    columns = [name for name in methods.columns if name != "method"]
    known = methods.drop("method", "ranker").unique().sort(pl.all()).iter_rows(named=True)
    lines = [" ".join(f"{key}={value}" for key, value in row.items() if value != "-") for row in known]
    remedy = "choose from: " + "; ".join(lines)
    found = methods
    for part in baseline.split():
        key, _, value = part.partition("=")
        column = column_of(key) if column_of(key) in columns else key
        if column not in columns:
            raise BadInput(f"{part!r} is not one of {'=…, '.join(columns)}=…", f"baseline={baseline}", remedy)
        found = found.filter(pl.col(column) == value)
    names = found["method"].unique()
    if len(names) != 1:
        matched = f"names {len(names)} methods" if len(names) else "names no method of this study"
        raise BadInput(matched, f"baseline={baseline}", remedy)
    return str(names[0]), set(found["ranker"])
