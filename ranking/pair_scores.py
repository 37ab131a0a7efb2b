"""Looks up scores of pairs of a query and a document that were made ahead of time: a teacher's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.ascending import find


@dataclass(frozen=True)
class PairScores:
    """Scores of some pairs.

    Args:
        keys: int64 [n], query · `size` + document, ascending.
        scores: float32 [n].
        size: documents of the collection.
    """

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]
    size: int

    @classmethod
    def of(
        cls, queries: NDArray[np.integer], documents: NDArray[np.integer], scores: NDArray[np.floating], size: int
    ) -> PairScores:
        """Of pairs in any order; what is not finite is not known.

        Args:
            queries, documents: int [n].
            scores: [n].
            size: documents of the collection.
        """
        known = np.isfinite(scores)
        keys, first = np.unique(np.asarray(queries, np.int64)[known] * size + documents[known], return_index=True)
        return cls(keys, scores[known][first].astype(np.float32), size)

    def lookup(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Scores of `documents` [q, m] for `queries` [q]; nan where they are not known, or the document is −1."""
        places, there = find(self.keys, np.asarray(queries, np.int64)[:, None] * self.size + documents)
        found = np.full(documents.shape, np.nan, np.float32)
        there &= documents >= 0
        found[there] = self.scores[places[there]]
        return found
