"""Summarises methods over collections and rankers: the part of a difference that holds beyond a single place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from pyrite.analysis.methods import with_methods
from pyrite.analysis.statistics.comparison import compare_both
from pyrite.analysis.statistics.crossed import NOTHING, Floats
from pyrite.analysis.statistics.paired import differences, mean_difference
from pyrite.analysis.statistics.places import Place, Places

SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against", "place"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "heterogeneity", "next_low", "next_high"), pl.Float64),
    "places": pl.Int64,
    "pairs": pl.Int64,
}
"""Columns of across.parquet."""
LEAST_VARIANCE = 1e-12
"""The largest variance of an effect that counts as none."""
ALL = "all"
"""The place of the row that sums up the others."""


class PooledEffect(NamedTuple):
    """The mean effect over all places, of which those seen are a sample, with its 95% interval; the standard deviation
    `between` places of the true effects, and the 95% interval of the effect at a place not seen yet."""

    mean: float
    low: float
    high: float
    between: float
    next_low: float
    next_high: float


def pool_effects(effects: Floats, variances: Floats) -> PooledEffect:
    """Pool the effects of two or more places, of which each is measured with an error, by a random-effects model.

    The variance between places is DerSimonian and Laird's (1986), the interval Hartung and Knapp's (2001), that of the
    next place Higgins, Thompson and Spiegelhalter's (2009). If nothing varies at a place (a measure of 1 for all
    queries), its variance is 0, which does not mean that it has no error: it gets the mean variance of the others.
    """
    count = len(effects)
    varies = variances > LEAST_VARIANCE
    variances = np.where(varies, variances, variances[varies].mean() if varies.any() else NOTHING)
    weights = 1 / variances
    fixed = (weights * effects).sum() / weights.sum()
    excess = (weights * (effects - fixed) ** 2).sum() - (count - 1)
    between = max(0.0, excess / (weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (variances + between)
    mean = float((weights * effects).sum() / weights.sum())
    error = float(np.sqrt((weights * (effects - mean) ** 2).sum() / ((count - 1) * weights.sum())))
    error = max(error, float(np.sqrt(1 / weights.sum())))  # never less sure than a fixed effect would be
    reach = float(stats.t.isf(0.025, count - 1)) * error
    further = float(stats.t.isf(0.025, max(count - 2, 1))) * float(np.sqrt(between + error**2))
    return PooledEffect(mean, mean - reach, mean + reach, float(np.sqrt(between)), mean - further, mean + further)


def across_places(study: Places, baseline: str | None = None) -> pl.DataFrame:
    """Compare each method with one reference at every place (a collection and ranker), and over all of them.

    By the leading measure and origin. Empty with fewer than two places. Intervals are over seeds and queries if values
    per query are known, else over seeds alone.

    Args:
        baseline: the name of the reference. None, or one that not all places have, takes the method with the highest
            mean over the places, of those that are not learned and have runs at all places.
    """
    places = {f"{place.key['ranker']} on {place.key['collection']}": place for place in study.at(finished=True)}
    reference = _reference([*places.values()], baseline)
    if reference is None:
        return pl.DataFrame(schema=SCHEMA)
    candidates, measure = study.first
    rows: list[dict[str, Any]] = []
    for method in sorted(set().union(*(place.methods for place in places.values())) - {reference}):
        head = {"candidates": candidates, "measure": measure, "against": reference, "method": method}
        effects = [*filter(None, (_effect(name, places[name], method, reference) for name in sorted(places)))]
        rows += [head | effect for effect in effects]
        if len(effects) > 1:
            at = pl.DataFrame(effects)
            pooled = pool_effects(at["difference"].to_numpy(), at["variance"].to_numpy())
            over = {"places": len(at), "pairs": at["pairs"].sum(), "place": ALL}
            rows.append(head | over | pooled._asdict() | {"difference": pooled.mean, "heterogeneity": pooled.between})
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None)


def _reference(places: Sequence[Place], baseline: str | None) -> str | None:
    """Return the method that others are compared with; None if no method that is not learned is at all places."""
    shared = set.intersection(*(set(place.methods) for place in places)) if len(places) > 1 else set[str]()
    able = shared.intersection(*(place.able for place in places))
    means = {name: float(np.mean([place.methods[name].mean for place in places])) for name in able}
    best = min(able, key=lambda name: (-means[name], name), default=None)
    return baseline if able and baseline in shared else best


def _effect(name: str, place: Place, method: str, reference: str) -> dict[str, Any] | None:
    """Return the difference of a method from the reference at one place, with its variance; None with fewer than two
    pairs."""
    if method not in place.methods:
        return None
    a, b = place.methods[method], place.methods[reference]
    by_seed = differences(a.runs, b.runs)
    if len(by_seed) < 2:
        return None
    both = compare_both(a, b, place.by_query)
    effect = both if both.is_known else mean_difference(by_seed)
    variance = both.error**2 if both.is_known else float(by_seed.var(ddof=1)) / len(by_seed)
    return {"places": 1, "pairs": len(by_seed), "place": name, "difference": effect.mean, "low": effect.low,
            "high": effect.high, "variance": variance}  # fmt: skip


def summarise_zero_shot(trials: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """Average over runs, one row per method, collection that it was `learned_from`, collection, origin and measure."""
    of_run = with_methods(trials).select("run", pl.col("collection").alias("learned_from"), "ranker", "method")
    keys = ["learned_from", "ranker", "method", "collection", "origin", "measure"]
    return (
        measured.join(of_run, on="run", maintain_order="left")
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std().alias("std"),
            pl.col("bm25").mean(),
            pl.col("queries").first(),
            pl.len().alias("runs"),
        )
    )
