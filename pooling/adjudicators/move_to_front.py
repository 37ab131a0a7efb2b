"""Leaves a run when it supplies a document that is not relevant."""

from pooling.adjudicators.bandit.index import ArmIndex
from pooling.adjudicators.compiled import kernel


@kernel
def _index(arm, now, parameters, rng):  # type: ignore[no-untyped-def]
    return arm.wins - arm.plays


class MoveToFront(ArmIndex):
    """MTF: priorities start equal, fall by one with each document that is not relevant, and the run with the highest is
    read on for as long as it has it (Cormack, Palmer and Clarke 1998; Losada et al. 2016, section 3.1).
    """

    index = _index
    stays = True
