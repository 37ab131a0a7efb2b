"""Summarises methods over collections and rankers: the part of a difference that holds beyond a single place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from pyrite.analysis.methods import METHOD, evaluations, is_learned, with_methods
from pyrite.analysis.statistics.by_query import Queries, values_by_run
from pyrite.analysis.statistics.comparison import compare_both, families, methods_of
from pyrite.analysis.statistics.paired import Floats, differences, mean_difference

SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against", "place"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "heterogeneity", "next_low", "next_high"), pl.Float64),
    "places": pl.Int64,
    "pairs": pl.Int64,
}
"""Columns of across.parquet."""
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
    next place Higgins, Thompson and Spiegelhalter's (2009).
    """
    count = len(effects)
    weights = 1 / np.maximum(variances, 1e-12)
    fixed = (weights * effects).sum() / weights.sum()
    excess = (weights * (effects - fixed) ** 2).sum() - (count - 1)
    between = max(0.0, excess / (weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (np.maximum(variances, 1e-12) + between)
    mean = float((weights * effects).sum() / weights.sum())
    error = float(np.sqrt((weights * (effects - mean) ** 2).sum() / ((count - 1) * weights.sum())))
    error = max(error, float(np.sqrt(1 / weights.sum())))  # never less sure than a fixed effect would be
    reach = float(stats.t.isf(0.025, count - 1)) * error
    further = float(stats.t.isf(0.025, max(count - 2, 1))) * float(np.sqrt(between + error**2))
    return PooledEffect(mean, mean - reach, mean + reach, float(np.sqrt(between)), mean - further, mean + further)


def across_places(trials: pl.DataFrame, baseline: str | None = None, queries: Queries | None = None) -> pl.DataFrame:
    """Compare each method with one reference at every place (a collection and ranker), and over all of them.

    By the leading measure and origin. Empty with fewer than two places.

    Args:
        baseline: the name of the reference. None, or one that not all places have, takes the method with the highest
            mean over the places, of those that are not learned and have runs at all places.
        queries: the frame of `queries.parquet`, for intervals over seeds and queries; None bounds over seeds alone.
    """
    candidates, measure = evaluations(trials)[0]
    places = {
        f"{place['ranker']} on {place['collection']}": methods_of(family, (*METHOD, "method"))
        for place, family in families(trials, finished=True)
    }
    known = [set(methods) for methods in places.values()]
    shared = set.intersection(*known) if len(places) > 1 else set()
    common = {name for name in shared if not is_learned(next(iter(places.values()))[name].identity)}
    if not common:
        return pl.DataFrame(schema=SCHEMA)
    means = {name: float(np.mean([methods[name].mean for methods in places.values()])) for name in common}
    reference = baseline if baseline in shared else min(common, key=lambda name: (-means[name], name))
    by_query = values_by_run(queries, trials, measure).get(candidates, {})
    rows: list[dict[str, Any]] = []
    for method in sorted(set.union(*known) - {reference}):
        head = {"candidates": candidates, "measure": measure, "against": reference, "method": method}
        effects, variances, pairs = [], [], 0
        for place, methods in sorted(places.items()):
            if method not in methods:
                continue
            a, b = methods[method], methods[reference]
            by_seed = differences(a.runs, b.runs)
            if len(by_seed) < 2:
                continue
            both = compare_both(a, b, by_query)
            effect = both or mean_difference(by_seed)
            rows.append(head | {"places": 1, "pairs": len(by_seed), "place": place,
                                "difference": effect.mean, "low": effect.low, "high": effect.high})  # fmt: skip
            effects.append(effect.mean)
            variances.append(both.error**2 if both else float(by_seed.var(ddof=1)) / len(by_seed))
            pairs += len(by_seed)
        if len(effects) > 1:
            pooled = pool_effects(np.array(effects), np.array(variances))._asdict()
            figures = {"difference": pooled.pop("mean"), "heterogeneity": pooled.pop("between"), **pooled}
            rows.append(head | {"places": len(effects), "pairs": pairs, "place": ALL, **figures})
    return pl.DataFrame(rows, schema=SCHEMA)


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
