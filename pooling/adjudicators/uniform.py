"""Chooses any run, with equal probabilities."""

from pyrite.pooling.adjudicators.bandit.index import ArmIndex
from pyrite.pooling.adjudicators.compiled import kernel


@kernel
def _index(arm, now, rng):  # type: ignore[no-untyped-def]
    return 0.0


class AnyRun(ArmIndex):
    """RANDOM: all runs are tied, so that the choice is random (Losada et al. 2016, section 2.1.1)."""

    index = _index
