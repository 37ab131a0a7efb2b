"""Stops a topic at the knee of its yield, when the curve of relevant documents found turns flat."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Gt
from numba import njit
from numpy.typing import NDArray

from pyrite.pooling.stopping import TopicRule
from pyrite.ranking.bounds import NonNegative, checked


class Knee(TopicRule):
    """The knee method (Cormack and Lynam 2016, "Engineering quality and reliability in technology-assisted review").

    The knee is the judgement furthest above the straight line from the first judgement to the last. Judging stops once
    the slope up to it is `ratio` times the slope after it (with one more relevant document counted there, so that an
    empty tail does not make the ratio infinite). While few are found the ratio must be higher, by one for each document
    that they are short of `ease`.

    Args:
        ratio: the required ratio of the slopes, above 1; 6 is the authors'.
        ease: relevant documents from which that ratio suffices; 150 is the authors'.
        least: judgements before which it does not stop. The authors' 1,000 are for whole collections.
    """

    @checked
    def __init__(
        self,
        ratio: Annotated[float, Gt(1)] = 6.0,
        ease: Annotated[int, NonNegative] = 150,
        least: Annotated[int, NonNegative] = 100,
    ) -> None:
        self.ratio, self.ease, self.least = ratio, ease, least

    def __str__(self) -> str:
        return f"knee {self.ratio:g}"

    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        held = np.zeros(len(relevant), bool)
        _holds(np.cumsum(relevant), float(self.ratio), self.ease, self.least, held)
        return held


@njit(nogil=True, cache=True)
def _holds(found, ratio, ease, least, held):  # type: ignore[no-untyped-def]  # pragma: no cover
    for last in range(1, len(found)):
        if last + 1 < least or not found[last]:
            continue
        knee, furthest = -1, 0.0
        for at in range(last):
            above = found[at] - found[last] * (at + 1) / (last + 1)
            if above > furthest:
                knee, furthest = at, above
        if knee >= 0:
            before = found[knee] / (knee + 1)
            behind = (1 + found[last] - found[knee]) / (last - knee)
            held[last] = before / behind >= ratio + max(ease - found[last], 0)
