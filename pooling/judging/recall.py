"""Estimates how many relevant documents a topic still holds, and whether its judging may stop."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import pdtr, pdtrik

from pooling.judging.progress import TopicProgress
from pooling.stopping import TargetRecall
from pooling.yield_curves import exponential_rest


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
    """Compute the decision of `TargetRecall` after the judgements so far, from their sums.

    Args:
        progress: the topic's totals.
        size: documents of its pool that were not judged before.
        known: relevant ones among those judged before: they count as found.
        rule: the rule, with the exponential curve.

    Returns:
        None if nothing relevant was found yet.
    """
    judged, rest = len(progress), size - len(progress)
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
