"""Picks the first documents of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class Top(Selector):
    """The head of the list: the hardest documents by the retrieval function's order."""

    independent = True

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        return function.top(batch, count, rng)
