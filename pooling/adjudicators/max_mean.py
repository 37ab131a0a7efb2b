"""Chooses the run with the highest posterior mean."""

from typing import Literal

from pyrite.pooling.adjudicators.bandit.index import BayesianIndex, Stay
from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.priors import Prior


@kernel
def _index(arm, now, rng):  # type: ignore[no-untyped-def]
    alpha = arm.alpha + arm.wins
    return alpha / (alpha + (arm.beta + arm.plays - arm.wins))


class MaxMean(BayesianIndex):
    """MM: α_s / (α_s + β_s) of the posterior (Losada et al. 2016, section 2.1.4). With the bandit's rate at 0 it is
    MM-NS (section 3.3).

    Args:
        stay: whether the run played last is played again if it is tied with others: always, while it is among the
            `best` (footnote 4), or only if it was `rewarded` with a relevant document. The latter is what section 3.3
            specifies for MM-NS: after a document that is not relevant it moves. Otherwise the choice is random.
    """

    index = _index

    def __init__(self, prior: Prior | None = None, stay: Literal["best", "rewarded"] = "best") -> None:
        super().__init__(prior)
        self.stay: Stay = stay
