"""Picks one set of negatives for a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining

DRAWS = 8
"""Number of draws from the lists before fewer documents than requested are accepted."""


class Shared(Selector):
    """The same documents for every query of a batch; each query's list contributes its part.

    A ranker reads them once for all queries, which makes many negatives cheap. Documents that are relevant for a query
    are left out for that query. Properties that depend on the query, such as the regions of category functions, hold
    for the batch and not for each query. A guard, which sees each query's list alone, is refused with it.
    """

    independent = True

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        drawn = np.zeros(0, np.int32)
        for _ in range(DRAWS):
            more = function.sample(batch, -(-count // len(batch)), rng).documents
            drawn = np.unique(np.concatenate([drawn, more[more >= 0]]))
            if len(drawn) >= count:
                drawn = rng.choice(drawn, count, replace=False)
                break
        documents = np.broadcast_to(drawn, (len(batch), len(drawn)))
        out = function.excluded(batch, documents)
        return CandidateBatch(np.where(out, -1, documents), np.full(documents.shape, np.nan, np.float32))
