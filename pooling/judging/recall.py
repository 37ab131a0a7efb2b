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
    """Of one topic.

    Args:
        most: relevant documents that are left at the most, at the confidence.
        recall: share of the pool's relevant documents that is found at the least, then.
        may_stop: the target is reached.
    """

    most: int
    recall: float
    may_stop: bool


def estimate_recall(progress: TopicProgress, size: int, known: int, rule: TargetRecall) -> RecallEstimate | None:
    """What `TargetRecall` says after the judgements so far, by their sums alone.

    Args:
        progress: of the topic.
        size: documents of its pool that were not judged before.
        known: relevant ones among those that were: they count as found.
        rule: with the exponential curve.

    Returns:
        None where nothing relevant was found yet: there is nothing to go by.
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
    """The smallest number that a Poisson variable stays at or below with this probability; `scipy.stats` is slower."""
    if mean == 0:
        return 0
    number = math.ceil(pdtrik(share, mean))
    return number - 1 if number and pdtr(number - 1, mean) >= share else number
