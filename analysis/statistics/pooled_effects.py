"""Pools the effects that independent places have, by a model of random effects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from pyrite.analysis.statistics.crossed import NOTHING, Floats

LEAST_VARIANCE = 1e-12
"""The largest variance of an effect that counts as none."""


class PooledEffect(NamedTuple):
    """The mean effect over all places, of which those seen are an independent sample, with its 95% interval; the
    standard deviation `between` places of the true effects, and the 95% interval of the effect at a place not seen yet.
    """

    mean: float
    low: float
    high: float
    between: float
    next_low: float
    next_high: float


def pool_effects(effects: Floats, variances: Floats) -> PooledEffect:
    """Pool the effects of two or more places, of which each is measured with an error, by a random-effects model.

    Their errors are independent, so places that share their test queries are averaged before (`across_places`).

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
