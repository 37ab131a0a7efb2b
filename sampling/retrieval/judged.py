"""Offers documents that were judged not relevant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.retrieval.ranked import draw_positions

if TYPE_CHECKING:
    from ranking.training import Batch


class Judged(RetrievalFunction):
    """The documents that assessors have read and judged not relevant: negatives beyond doubt.

    They come from pools of the best documents of many systems, so they are hard as well; Cohen et al. 2019 point out
    that Robust04's queries have them. A query without such a document gets no negatives; combine this function with
    another one if judgements are few. Documents with higher grades come first.

    Raises:
        BadInput: if no document was judged not relevant.
    """

    independent = True

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        judged = encoded.judgements.not_relevant()
        if not len(judged.documents):
            raise BadInput(
                "no document was judged not relevant",
                "function=judged",
                "choose another function; this collection has judgements of relevant documents only",
            )
        order = np.lexsort((judged.documents, -judged.grades, judged.rows()))
        self.documents, self.grades = judged.documents[order], judged.grades[order]
        self.first, self.counts = judged.offsets[:-1], np.diff(judged.offsets)

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self._candidates(batch, draw_positions(self.counts[batch.queries], count, rng))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self._candidates(batch, np.broadcast_to(np.arange(count), (len(batch), count)))

    def _candidates(self, batch: Batch, positions: np.ndarray) -> CandidateBatch:
        """Return the documents at these positions of each query's list [b, count], with their grades as scores."""
        present = np.arange(positions.shape[1]) < self.counts[batch.queries][:, None]
        rows = np.where(present, self.first[batch.queries][:, None] + positions, 0)
        documents = np.where(present, self.documents[rows], -1).astype(np.int32)
        return CandidateBatch(documents, np.where(present, self.grades[rows], -np.inf).astype(np.float32))
