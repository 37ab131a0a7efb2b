"""Picks one set of negatives for a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining

DRAWS = 8
"""Times that lists are drawn from before fewer documents than asked for have to do."""


class Shared(Selector):
    """Every query of a batch is shown the same documents, to which each query's list gives its part.

    A ranker reads them once for all queries, so that many cost little. Documents that are relevant for a query are left
    out of its own. What depends on the query, as category functions do, is kept by the batch and not by each query.
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
