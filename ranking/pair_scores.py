"""Looks up scores of pairs of a query and a document that were made ahead of time, such as a teacher's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.ascending import find


@dataclass(frozen=True)
class PairScores:
    """Scores of some pairs.

    Args:
        keys: int64 [n], query · `size` + document, ascending.
        scores: float32 [n].
        size: the number of documents of the collection.
    """

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]
    size: int

    @classmethod
    def of(
        cls, queries: NDArray[np.integer], documents: NDArray[np.integer], scores: NDArray[np.floating], size: int
    ) -> PairScores:
        """Make a table of pairs [n] in any order. A score that is not finite counts as unknown."""
        known = np.isfinite(scores)
        keys, first = np.unique(np.asarray(queries, np.int64)[known] * size + documents[known], return_index=True)
        return cls(keys, scores[known][first].astype(np.float32), size)

    def lookup(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return scores of `documents` [q, m] for `queries` [q]; nan if they are unknown or the document is −1."""
        places, known = find(self.keys, np.asarray(queries, np.int64)[:, None] * self.size + documents)
        scores = np.full(documents.shape, np.nan, np.float32)
        known &= documents >= 0
        scores[known] = self.scores[places[known]]
        return scores
