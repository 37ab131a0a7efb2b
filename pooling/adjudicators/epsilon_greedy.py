"""Chooses the best run so far, and sometimes any run."""

from typing import Annotated

from pyrite.pooling.adjudicators.bandit.index import ArmIndex
from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.ranking.bounds import Positive, checked


@kernel
def _begin(arms, turn, remembered, rng, c, d):  # type: ignore[no-untyped-def]
    epsilon = min(1.0, c * len(arms.plays) / (d * d * (turn + 1)))
    return 1.0 if rng.random() < epsilon else 0.0


@kernel
def _index(arm, now, rng):  # type: ignore[no-untyped-def]
    if now == 1.0:  # explore: all are tied, and the draw decides
        return 0.0
    return arm.wins / arm.plays if arm.plays > 0 else 0.5


class EpsilonGreedy(ArmIndex):
    """ε_n-greedy: with probability ε_n = min(1, cK / (d²n)) at play n = 1, 2, … any of the K runs, otherwise one with
    the highest mean; a mean is 0.5 before the first play (Auer et al. 2002; Losada et al. 2016, section 2.1.2).

    Args:
        c: factor on the probability of exploring, above 0.
        d: usually the difference between the best run and the second, above 0.
    """

    begin = _begin
    index = _index

    @checked
    def __init__(self, c: Annotated[float, Positive] = 0.01, d: Annotated[float, Positive] = 0.1) -> None:
        self.c, self.d = c, d
