"""Estimates the share of relevant documents among the negatives shown to rankers, from a judged sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from pyrite.pooling.estimates import TAIL, share_interval


class NegativeSample(NamedTuple):
    """A sample, given as a prefix of an order.

    Args:
        order: int64 [all], the order in which to judge.
        inclusion: float64 [all], the probability of each to be in the sample, whether it is or not.
    """

    order: NDArray[np.int64]
    inclusion: NDArray[np.float64]


def draw(sizes: NDArray[np.float64], count: int, rng: np.random.Generator) -> NegativeSample:
    """Draw a sample of a given size by priority sampling, with probabilities that increase with the sizes.

    Each gets a priority size / u, u uniform; the sample is the `count` with the highest. Given the next priority τ
    after them, each is in the sample with the probability min(1, size / τ), independently of the others as far as
    estimates of sums are concerned (Duffield, Lund and Thorup 2007, "Priority sampling for estimation of arbitrary
    subset sums"). So sums are unbiased, and a sample may be enlarged: the order stays. Sizes are above 0.
    """
    priorities = sizes / (1.0 - rng.random(len(sizes)))
    order = np.argsort(-priorities, kind="stable")
    if count >= len(sizes):
        return NegativeSample(order, np.ones(len(sizes)))
    return NegativeSample(order, np.minimum(1.0, sizes / priorities[order[count]]))


def sizes_of(exposures: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the size of each negative for drawing: its share of each policy's exposures, averaged over policies."""
    return np.sum([shown / shown.sum() for shown in exposures], axis=0) / len(exposures)


class Rate(NamedTuple):
    """The share of relevant ones, with its 95% interval; None if nothing is judged."""

    rate: float | None
    low: float
    high: float
    judged: int


class RecordedQueries(NamedTuple):
    """The queries whose negatives were recorded, if they are themselves a sample.

    Args:
        share: the probability of each query to be recorded, below 1.
        of: int64 [negatives], the number of each negative's query.
    """

    share: float
    of: NDArray[np.int64]


def rate(
    exposures: NDArray[np.float64],
    inclusion: NDArray[np.float64],
    relevant: NDArray[np.float64],
    recorded: RecordedQueries | None = None,
) -> Rate:
    """Estimate the share of relevant documents among those that one policy was shown, by Hájek's ratio estimator.

    The ratio of two weighted sums varies far less than the sum of the relevant ones alone (Horvitz and Thompson 1952)
    if many are relevant, because a sample of one policy's negatives has no fixed size; its bias vanishes with the
    number of draws. The interval is Clopper and Pearson's for as many draws as would have the estimate's variance (Korn
    and Graubard 1998), but at most as many as the weights are worth (Kish): the few relevant documents found may have
    small weights by chance.

    If a share of the queries was recorded, the interval is for the negatives of all queries. The variance is then that
    of two stages: queries, each with its negatives, and the judged ones among these (Särndal, Swensson and Wretman
    1992, "Model assisted survey sampling", section 4.3). There are as many degrees of freedom as judged queries, less
    one, and if no query differs from the others, the negatives of a query are worth one draw.

    Args:
        exposures: float64 [negatives], how often it showed each.
        inclusion: float64 [negatives], the probability of each to be in the sample, given that it is recorded.
        relevant: float64 [negatives], 1 or 0 for a judged one; NaN for others.
        recorded: the queries that were recorded; None if all were.
    """
    judged = ~np.isnan(relevant) & (exposures > 0)
    weights, known, missing = exposures[judged] / inclusion[judged], relevant[judged], 1.0 - inclusion[judged]
    if not len(weights):
        return Rate(None, 0.0, 1.0, 0)
    share = float((weights * known).sum() / weights.sum())
    if recorded is None and not missing.any() and len(weights) == int((exposures > 0).sum()):
        return Rate(share, share, share, len(weights))
    weights = weights / weights.sum()
    variance, worth = float((missing * (weights * (known - share)) ** 2).sum()), float((weights**2).sum())
    most, free = 1 / worth, max(len(weights) - 1, 1)
    fewest, widening = most, 1.0
    if recorded is not None:
        _, of = np.unique(recorded.of[judged], return_inverse=True)
        sums, sizes = np.bincount(of, weights * (known - share)), np.bincount(of, weights)
        between = float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1)
        variance = recorded.share * variance + (1 - recorded.share) * between
        fewest = 1 / (recorded.share * worth + (1 - recorded.share) * float((sizes**2).sum()))
        widening = float(stdtrit(free, 1 - TAIL) / stdtrit(max(len(sums) - 1, 1), 1 - TAIL)) ** 2
    draws = min(share * (1 - share) / variance, most) if variance > 0 and 0 < share < 1 else fewest
    return Rate(share, *share_interval(share * draws * widening, draws * widening), len(weights))
