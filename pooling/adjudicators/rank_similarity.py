"""Judges first the documents that many runs rank high, whatever the judgements: CombSUM, CombMNZ and Borda's count."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.static import StaticOrder
from pyrite.pooling.pool import TopicPool
from pyrite.ranking.bounds import NonNegative, checked


class CombMNZ(StaticOrder):
    """The document with the highest holders^power · Σ_s similarity_s: CombSUM with power 0, CombMNZ with 1 (Fox and
    Shaw 1994, "Combination of multiple searches").

    A pool knows ranks and no scores, so a run's similarity is Lee's by rank: 1 - (rank - 1) / documents of the run
    (1997, "Analyses of multiple evidence combination"). Ties go to the lower document id.

    Args:
        power: exponent of the number of runs that hold the document.
    """

    @checked
    def __init__(self, power: Annotated[float, NonNegative] = 1.0) -> None:
        super().__init__()
        self.power = power

    def order(self, pool: TopicPool) -> NDArray[Any]:
        similarity = 1.0 - pool.ranks / np.maximum(pool.lengths[pool.holders], 1)
        return _descending(np.add.reduceat(similarity, pool.offsets[:-1]) * np.diff(pool.offsets) ** self.power)


class CombSUM(CombMNZ, power=0.0):
    """CombSUM: the sum of the runs' similarities by rank (Fox and Shaw 1994; Lee 1997)."""


class Borda(StaticOrder):
    """Borda's count: each run gives its first document as many points as the pool has documents, the next one point
    less, and shares the points that are left among the documents that it does not hold (Aslam and Montague 2001,
    "Models for metasearch").

    Ties go to the lower document id.
    """

    def order(self, pool: TopicPool) -> NDArray[Any]:
        # The points of a run for a document that it does not hold, the mean of those left, go to all documents first.
        others = (pool.size - pool.lengths + 1) / 2.0
        points = pool.size - pool.ranks - others[pool.holders]
        return _descending(np.add.reduceat(points, pool.offsets[:-1]))


def _descending(scores: NDArray[np.float64]) -> NDArray[Any]:
    # Rounded, so that equal values stay equal on every processor.
    return np.argsort(-np.round(scores, 9), kind="stable")
