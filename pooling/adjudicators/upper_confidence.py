"""Chooses the run that may be best: upper confidence bounds."""

import math
from typing import Annotated

from pyrite.pooling.adjudicators.bandit.index import ArmIndex
from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.ranking.bounds import NonNegative, checked


@kernel
def _begin(arms, turn, remembered, rng):  # type: ignore[no-untyped-def]
    return math.log(remembered) if remembered > 1.0 else 0.0


@kernel
def _ucb1(arm, now, rng, exploration):  # type: ignore[no-untyped-def]
    plays = arm.plays
    if plays <= 0.0:
        return math.inf
    return arm.wins / plays + math.sqrt(exploration * now / plays)


@kernel
def _tuned(arm, now, rng):  # type: ignore[no-untyped-def]
    plays = arm.plays
    if plays <= 0.0:
        return math.inf
    mean = arm.wins / plays
    variance = max(arm.squares / plays - mean * mean, 0.0)
    return mean + math.sqrt(now / plays * min(0.25, variance + math.sqrt(2.0 * now / plays)))


class UCB1(ArmIndex):
    """UCB1: mean + √(exploration · ln n / n_j), after each run was played once (Auer et al. 2002).

    n counts all plays with a known outcome, each once however many runs hold its document, and n_j those that run j
    learned from. With the bandit's `discount` it is D-UCB, with its `window` SW-UCB (Garivier and Moulines 2011, whose
    ξ = 1/2 makes exploration 2 and 1/2).

    Args:
        exploration: factor of ln n / n_j under the root; 2 is UCB1's.
    """

    begin = _begin
    index = _ucb1

    @checked
    def __init__(self, exploration: Annotated[float, NonNegative] = 2.0) -> None:
        self.exploration = exploration


class UCB1Tuned(ArmIndex):
    """UCB1-Tuned: mean + √(ln n / n_j · min(1/4, σ_j² + √(2 ln n / n_j))), after each run was played once
    (Auer et al. 2002; Losada et al. 2016, algorithm 1). σ_j² is the variance of the run's rewards.
    """

    begin = _begin
    index = _tuned
