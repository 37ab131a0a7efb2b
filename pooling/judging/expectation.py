"""Estimates how many of the next documents are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import comb, exp, lgamma
from typing import NamedTuple

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


def expected_yield(relevant: Sequence[bool], left: int) -> Expectation | None:
    """Relevant documents to expect among the next few, if they are like the last few.

    The share of relevant documents has Jeffreys' prior, Beta(½, ½); the last `RECENT` judgements make it a posterior,
    and the number among the next documents is beta-binomial. A good order finds less and less, so this is rather too
    high than too low.

    Args:
        relevant: of the topic's judgements, in their order.
        left: documents that the topic still has to judge.

    Returns:
        None where nothing is left.
    """
    ahead = min(AHEAD, left)
    if ahead < 1:
        return None
    recent = relevant[-RECENT:]
    alpha, beta = 0.5 + sum(recent), 0.5 + len(recent) - sum(recent)
    chances = [
        comb(ahead, found) * exp(_log_beta(alpha + found, beta + ahead - found) - _log_beta(alpha, beta))
        for found in range(ahead + 1)
    ]
    low, high = (
        next((found for found, sofar in enumerate(accumulate(chances)) if sofar >= share), ahead)
        for share in (0.05, 0.95)
    )
    return Expectation(ahead, ahead * alpha / (alpha + beta), low, high, len(recent))


def _log_beta(alpha: float, beta: float) -> float:
    return lgamma(alpha) + lgamma(beta) - lgamma(alpha + beta)
