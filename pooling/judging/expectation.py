"""Estimates how many of the next documents are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from scipy.stats import betabinom

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
    """Estimate the relevant documents among the next few, if they are like the last few.

    The share of relevant documents has Jeffreys' prior, Beta(½, ½); the last judgements turn it into a posterior, and
    the number among the next documents is beta-binomial. A good order finds fewer and fewer, so this is rather too high
    than too low.

    Args:
        recent: relevance of the last `RECENT` judgements.
        left: documents still to judge.

    Returns:
        None if nothing is left.
    """
    return None if left < 1 else _expectation(sum(recent), len(recent), min(AHEAD, left))


@lru_cache(maxsize=(RECENT + 1) ** 2 * AHEAD)
def _expectation(found: int, judged: int, ahead: int) -> Expectation:
    number = betabinom(ahead, 0.5 + found, 0.5 + judged - found)
    return Expectation(ahead, float(number.mean()), int(number.ppf(0.05)), int(number.ppf(0.95)), judged)
