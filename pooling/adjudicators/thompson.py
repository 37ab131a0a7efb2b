"""Chooses by a draw from each run's posterior."""

from pyrite.pooling.adjudicators.bandit.index import BayesianIndex
from pyrite.pooling.adjudicators.compiled import kernel


@kernel
def _index(arm, now, rng):  # type: ignore[no-untyped-def]
    return rng.beta(arm.alpha + arm.wins, arm.beta + arm.plays - arm.wins)


class Thompson(BayesianIndex):
    """BLA, Thompson sampling: x_s ~ Beta(α + jrel_s, β + jret_s - jrel_s) (Granmo 2008; Losada et al. 2016, algorithm
    2). With the bandit's rate at 0 it is BLA-NS.
    """

    index = _index
