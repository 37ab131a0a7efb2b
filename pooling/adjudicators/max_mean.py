"""Chooses the run with the highest posterior mean."""

from pooling.adjudicators.bandit.index import BayesianIndex
from pooling.adjudicators.compiled import kernel


@kernel
def _index(arm, now, parameters, rng):  # type: ignore[no-untyped-def]
    alpha = arm.alpha + arm.wins
    return alpha / (alpha + (arm.beta + arm.plays - arm.wins))


class MaxMean(BayesianIndex):
    """MM: α_s / (α_s + β_s) of the posterior; the run played last stays while it is among the best (Losada et al.
    2016, section 2.1.4 and its footnote 4). With the bandit's rate at 0 it is MM-NS.

    Args:
        prior: of each run; None is Beta(1, 1) for all.
    """

    index = _index
    stays = True
