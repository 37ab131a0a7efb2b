"""Offers the positives of the other queries of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ranking.encoding import EncodedCollection
from ranking.ranked_lists import RankedLists
from ranking.texts import Texts
from sampling.retrieval.function import CandidateBatch, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch


class InBatch(RetrievalFunction):
    """In-batch negatives: each query is shown positives of other queries of its batch (Karpukhin et al. 2020).

    They cost little, since a ranker reads a document once for the whole batch, and they are drawn as often as they are
    relevant somewhere. A document that is judged relevant for the query, or reads the same as its positive, is left
    out. A batch of `training.batch_size` pairs supplies at most one document less than its size.
    """

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.content = same_content(encoded.documents, encoded.judgements.relevant().documents)

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        others = np.unique((batch.whole or batch).positives)
        alike = self.content[others] == self.content[batch.positives][:, None]
        keys = np.where(alike, np.inf, rng.random(alike.shape))
        order = np.argsort(keys, axis=1, kind="stable")[:, :count]
        there = np.isfinite(np.take_along_axis(keys, order, 1))
        documents = np.where(there, others[order], -1).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # they have no order


def same_content(texts: Texts, places: NDArray[np.integer]) -> NDArray[np.int64]:
    """For each text its own place, or, of those at `places`, the first of them that reads the same. Shape [texts]."""
    content = np.arange(len(texts))
    first: dict[bytes, int] = {}
    for place in np.unique(places).tolist():
        tokens = texts.tokens[texts.offsets[place] : texts.offsets[place + 1]]
        content[place] = first.setdefault(tokens.tobytes(), place)
    return content
