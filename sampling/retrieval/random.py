"""Draws documents from the whole collection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.retrieval.ranked import draw_positions, skip_excluded

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch


class Random(RetrievalFunction):
    """d ~ U(C) (Cohen et al. 2019, section 3.1.1): every document but the relevant ones, in random order."""

    independent = True

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        relevant = encoded.judgements.relevant()
        self.size = len(encoded.documents)
        self.offsets = relevant.offsets
        # The j-th relevant document (from 0) minus j is the number of other documents before it, by which
        # `skip_excluded` moves a draw past relevant documents.
        rank = np.arange(len(relevant.documents)) - np.repeat(relevant.offsets[:-1], np.diff(relevant.offsets))
        self.before = relevant.documents - rank

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        queries = batch.queries
        counts = self.size - (self.offsets[queries + 1] - self.offsets[queries])
        moved = skip_excluded(draw_positions(counts, count, rng), self.before, self.offsets, queries)
        documents = np.where(np.arange(count) < counts[:, None], moved, -1).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # any order is as random as another
