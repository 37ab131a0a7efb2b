"""Picks documents of a list at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class Uniform(Selector):
    """Distinct documents of the list, all equally probable: `_rand` in Cohen et al. 2019, section 5.2."""

    independent = True

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        return function.sample(batch, count, rng)
