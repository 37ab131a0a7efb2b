"""Estimates how many of the next documents are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from scipy.stats import betabinom

RECENT = 20
"""Judgements that are looked back on."""
AHEAD = 10
"""Documents that are looked ahead to."""


class Expectation(NamedTuple):
    """Of the next documents.

    Args:
        documents: how many.
        mean: relevant ones to expect among them.
        low, high: the central interval that holds their number at 90%.
        recent: judgements that it rests on.
    """

    documents: int
    mean: float
    low: int
    high: int
    recent: int


def expected_yield(recent: Sequence[bool], left: int) -> Expectation | None:
    """Relevant documents to expect among the next few, if they are like the last few.

    The share of relevant documents has Jeffreys' prior, Beta(½, ½); the last judgements make it a posterior, and the
    number among the next documents is beta-binomial. A good order finds less and less, so this is rather too high than
    too low.

    Args:
        recent: relevance of the last `RECENT` judgements.
        left: documents that are still to be judged.

    Returns:
        None where nothing is left.
    """
    return None if left < 1 else _expectation(sum(recent), len(recent), min(AHEAD, left))


@lru_cache(maxsize=(RECENT + 1) ** 2 * AHEAD)
def _expectation(found: int, judged: int, ahead: int) -> Expectation:
    number = betabinom(ahead, 0.5 + found, 0.5 + judged - found)
    return Expectation(ahead, float(number.mean()), int(number.ppf(0.05)), int(number.ppf(0.95)), judged)
