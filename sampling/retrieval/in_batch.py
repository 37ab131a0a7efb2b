"""Offers the positives of the other queries of a batch, and optionally their mined negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch


class InBatch(RetrievalFunction):
    """In-batch negatives: each query is shown positives of other queries of its batch (Karpukhin et al. 2020).

    They cost little, since a ranker reads a document once for the whole batch, and they are drawn as often as they are
    relevant somewhere. A document that is judged relevant for the query, or has the same text as one that is, is left
    out. A batch of `training.batch_size` pairs supplies at most one document less than its size. If several workers
    train the ranker, the batch is that of all workers.

    Args:
        hard: whether the documents that other functions have mined for the other queries are offered as well:
            `function=[in_batch,bm25]` then shows a query BM25's documents of all queries of the batch (Karpukhin et al.
            2020, section 5.2). They are in the batch already, so a ranker reads no more documents.
    """

    independent = True

    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        hard: bool = False,
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, pick=pick, name=name)
        self.hard = self.reads_mined = hard

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.encoded, self.pairs = encoded, RelevantPairs(encoded)

    def supply(self, batch_size: int, mined: int) -> int | None:
        return (batch_size - 1) * (1 + (mined if self.hard else 0))

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        whole = batch.whole or batch
        others = whole.positives
        if self.hard and whole.mined is not None:
            others = np.concatenate([others, whole.mined[whole.mined >= 0]])
        return self.offer(batch, np.unique(others), count, rng)

    def offer(self, batch: Batch, others: NDArray[np.integer], count: int, rng: np.random.Generator) -> CandidateBatch:
        """Draw `count` of the documents `others` for each query, without those that have the text of a relevant one."""
        contents = self.encoded.contents(others)
        out = contents == self.encoded.contents(batch.positives)[:, None]
        if self.encoded.content is not None or self.encoded.itself is not None:
            # Documents that are judged relevant themselves are left out for every function (`FilteredFunction`).
            out |= self.pairs.unjudged_among(batch.queries, np.broadcast_to(others, out.shape))
        if self.hard and batch.mined is not None:
            for column in self.encoded.contents(batch.mined).T:  # there are few columns
                out |= contents == column[:, None]
        keys = np.where(out, np.inf, rng.random(out.shape))
        order = np.argsort(keys, axis=1, kind="stable")[:, :count]
        present = np.isfinite(np.take_along_axis(keys, order, 1))
        documents = np.where(present, others[order], -1).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # they have no order
