"""Bounds the mean of bounded values so that one may look after each of them and stop at any time.

A bettor stakes part of a growing capital against the claim that the mean is m. Were the claim true, the capital would
hardly grow: it exceeds 1/α, ever, with a probability of α at most (Ville's inequality). So the capital is evidence
against m that may be looked at after each value (an e-value, and one over its largest so far a p), and all m that it
has not refuted are a confidence sequence: Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables
by betting", section 4. The stakes are the shares FRACTIONS of the largest that can't ruin the bettor, side by side with
equal parts of the capital (their diversified Kelly bets): large ones, for what tens of values can show pays those best.

No fixed number of values is assumed, nor any shape of their distribution but its bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FRACTIONS = np.array([0.6, 0.95])
GRID = 401
"""Means that are tried for a confidence sequence."""


def evidence(values: Floats, mean: Floats | float, low: float, high: float) -> tuple[Floats, Floats]:
    """Log of the capital [n, k] after each value, of who bets that the true mean lies above, and below, a claimed one.

    Each is evidence against the claim that the mean is at most (at least) this: if that is true, the probability
    that the capital ever reaches 1/α is at most α.

    Args:
        values: [n], or [n, k] for k separate sequences; cut off at `low` and `high`.
        mean: the claims, one or [k], strictly between both.
        low, high: bounds of the values.
    """
    x = (np.clip(values, low, high) - low) / (high - low)
    m = (np.atleast_1d(np.asarray(mean, np.float64)) - low) / (high - low)
    gain = x.reshape(len(x), -1) - m
    above = _mixed(gain / m)
    below = _mixed(-gain / (1 - m))
    return above, below


def _mixed(gains: Floats) -> Floats:
    """Log of the mean capital over all stakes; `gains` [n, k] are what the largest stake would win."""
    each = np.cumsum(np.log1p(FRACTIONS[:, None, None] * gains), axis=1)
    most = each.max(0)
    return most + np.log(np.exp(each - most).mean(0))


def p_values(values: Floats, mean: Floats | float, low: float, high: float) -> tuple[Floats, Floats]:
    """p, valid whenever one stops, that the mean is at most (at least) `mean`: after each value, shaped as `values`."""
    above, below = evidence(values, mean, low, high)

    def p(log: Floats) -> Floats:
        return np.minimum(np.exp(-np.maximum.accumulate(log, axis=0)), 1.0).reshape(values.shape)

    return p(above), p(below)


def confidence_sequence(values: Floats, level: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Lower and upper bound of the mean [n] after each value, all of which hold at once with this probability.

    The interval never grows.

    Args:
        values: [n], cut off at `low` and `high`.
        level: e.g. .95.
        low, high: bounds of the values.
    """
    means = np.linspace(low, high, GRID + 2)[1:-1]
    step = means[1] - means[0]
    above, below = evidence(values, means, low, high)
    limit = np.log(2 / (1 - level))  # a half of the error for either side
    # A claim that was refuted stays so. The next one of the grid is not: the bound lies between both.
    lower = low + step * (np.maximum.accumulate(above, axis=0) >= limit).cumprod(1).sum(1)
    refuted = (np.maximum.accumulate(below, axis=0) >= limit)[:, ::-1]
    upper = high - step * refuted.cumprod(1).sum(1)
    return lower, np.maximum(upper, lower)
