"""Estimates what is left of a topic: relevant documents among the next ones and in the rest, and whether to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its `stats` is imported when it is first used
from scipy.special import pdtr, pdtrik

from pooling.judging.progress import TopicProgress
from pooling.stopping import TargetRecall
from pooling.yield_curves import exponential_rest

RECENT = 20
"""Recent judgements that the estimate uses."""
AHEAD = 10
"""Documents that the estimate is about."""


class Expectation(NamedTuple):
    """An estimate for the next documents.

    Args:
        documents: number of these documents.
        mean: relevant ones to expect among them.
        low, high: the central 90% interval of their number.
        recent: judgements that the estimate uses.
    """

    documents: int
    mean: float
    low: int
    high: int
    recent: int


def expected_yield(recent: Sequence[bool], left: int) -> Expectation | None:
    """Estimate the relevant documents among the next few, if they are like the last few; None if nothing is left.

    The share of relevant documents has Jeffreys' prior, Beta(½, ½); the last judgements turn it into a posterior, and
    the number among the next documents is beta-binomial. A good order finds fewer and fewer, so this is rather too high
    than too low.

    Args:
        recent: relevance of the last `RECENT` judgements.
        left: documents still to judge.
    """
    return None if left < 1 else _expectation(sum(recent), len(recent), min(AHEAD, left))


@lru_cache(maxsize=(RECENT + 1) ** 2 * AHEAD)
def _expectation(found: int, judged: int, ahead: int) -> Expectation:
    number = scipy.stats.betabinom(ahead, 0.5 + found, 0.5 + judged - found)
    return Expectation(ahead, float(number.mean()), int(number.ppf(0.05)), int(number.ppf(0.95)), judged)


class RecallEstimate(NamedTuple):
    """The estimate for one topic.

    Args:
        most: upper bound of the relevant documents left, at the confidence.
        recall: lower bound of the share of the pool's relevant documents that is found.
        may_stop: whether the target is reached.
    """

    most: int
    recall: float
    may_stop: bool


def estimate_recall(progress: TopicProgress, size: int, known: int, rule: TargetRecall) -> RecallEstimate | None:
    """Compute the decision of `TargetRecall` after the judgements so far, from their sums; None if nothing relevant was
    found yet.

    Args:
        progress: the topic's totals.
        size: documents of its pool that were not judged before.
        known: relevant ones among those judged before: they count as found.
        rule: the rule, with the exponential curve.
    """
    judged = len(progress)
    size = max(size, judged)  # documents that no run has may be judged besides
    rest = size - judged
    if not progress.found:
        return None
    sums = np.array([judged]), np.array([progress.found]), np.array([progress.places])
    expected = exponential_rest(*sums, size, rule.confidence)
    found = progress.found + known
    most = min(_quantile(rule.confidence, float(expected[0])), rest)
    stop = bool(rule.reached(np.array([found]), np.array([rest]), expected)[0])
    return RecallEstimate(most, found / (found + most), stop)


def _quantile(share: float, mean: float) -> int:
    """Return the smallest number that a Poisson variable does not exceed with this probability; `scipy.stats` is
    slower.
    """
    if mean == 0:
        return 0
    number = math.ceil(pdtrik(share, mean))
    return number - 1 if number and pdtr(number - 1, mean) >= share else number
