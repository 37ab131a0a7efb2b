"""Leaves a run when it supplies a document that is not relevant."""

from pyrite.pooling.adjudicators.bandit.index import ArmIndex
from pyrite.pooling.adjudicators.compiled import kernel


@kernel
def _index(arm, now, rng):  # type: ignore[no-untyped-def]
    return arm.wins - arm.plays


class MoveToFront(ArmIndex):
    """MTF: a run is read until it supplies a document that is not relevant. That lowers its priority by one, and
    another run of the highest priority is read; all start with the same priority (Cormack, Palmer and Clarke 1998;
    Losada et al. 2016, section 3.1).

    With `pyrite.pooling.rewards.Graded` the priority is lowered by what the reward lacks to 1, so that a run is left
    after each document below the highest grade, a relevant one too.
    """

    index = _index
    stay = "until_missed"
