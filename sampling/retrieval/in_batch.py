"""Offers the positives of the other queries of a batch, and optionally their mined negatives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ranking.alike import digests
from ranking.ascending import find
from ranking.encoding import EncodedCollection
from ranking.ranked_lists import RankedLists
from sampling.retrieval.function import CandidateBatch, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch


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

    def __init__(self, hard: bool = False) -> None:
        self.hard = self.reads_mined = hard

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        relevant = encoded.judgements.relevant()
        self._texts, self._size = replace(encoded.documents, labels=None), len(encoded.documents)
        self._judged = relevant.rows() * self._size + relevant.documents
        # Only judged documents are read here, and otherwise those of a batch: a collection may be large.
        self._contents, content = np.unique(digests(self._texts, relevant.documents), return_inverse=True)
        self._alike = np.unique(relevant.rows() * self._size + content)

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
        contents = digests(self._texts, others)
        out = contents == digests(self._texts, batch.positives)[:, None]
        out |= self._reads_relevant(batch.queries, others, contents)
        if self.hard and batch.mined is not None:
            for column in batch.mined.T:  # there are few columns
                out |= others == column[:, None]
        keys = np.where(out, np.inf, rng.random(out.shape))
        order = np.argsort(keys, axis=1, kind="stable")[:, :count]
        present = np.isfinite(np.take_along_axis(keys, order, 1))
        documents = np.where(present, others[order], -1).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # they have no order

    def _reads_relevant(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], contents: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Return which of the documents [m] have the text of one that is relevant for the query, without being judged:
        [b, m].

        Documents that are judged relevant are left out for every function (`sampling.filtered.FilteredFunction`).
        """
        rows = np.asarray(queries, np.int64)[:, None] * self._size
        content, known = find(self._contents, contents)
        return known & find(self._alike, rows + content)[1] & ~find(self._judged, rows + documents)[1]
