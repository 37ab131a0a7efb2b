"""Records which documents a guard dropped, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REASONS = ("scores above the positive", "within the absolute margin", "within the relative margin", "above the ceiling")
"""Why a document was dropped."""


@dataclass(frozen=True)
class GuardedDocuments:
    """Which documents a guard dropped, and why; of each query the first so many as its list is long.

    Args:
        queries, documents: int32 [n], indices.
        scores: float32 [n], the function's, of the documents.
        positives: float32 [n], the function's best score of a relevant document of the query.
        reasons: int8 [n], indices into `REASONS`.
        total: how many were dropped in all before the lists were full.
        relevant: how many documents it would have dropped besides that are judged relevant, without the best-scored one
            of each query: where they are many, the guard drops what is relevant and not what is noise.
    """

    queries: NDArray[np.int32]
    documents: NDArray[np.int32]
    scores: NDArray[np.float32]
    positives: NDArray[np.float32]
    reasons: NDArray[np.int8]
    total: int = 0
    relevant: int = 0

    def by_query(self, queries: NDArray[np.integer]) -> dict[int, GuardedDocuments]:
        """The record of each of some queries, by itself."""
        records = {}
        for query in np.unique(queries).tolist():
            of = self.queries == query
            columns = (self.queries[of], self.documents[of], self.scores[of], self.positives[of], self.reasons[of])
            records[query] = GuardedDocuments(*columns, int(of.sum()))
        return records

    @classmethod
    def joined(cls, parts: Sequence[GuardedDocuments]) -> GuardedDocuments:
        """All of several, one after the other."""
        nothing = np.zeros(0, np.int32)
        return cls(
            np.concatenate([nothing, *(part.queries for part in parts)]).astype(np.int32),
            np.concatenate([nothing, *(part.documents for part in parts)]).astype(np.int32),
            np.concatenate([nothing, *(part.scores for part in parts)]).astype(np.float32),
            np.concatenate([nothing, *(part.positives for part in parts)]).astype(np.float32),
            np.concatenate([nothing, *(part.reasons for part in parts)]).astype(np.int8),
            sum(part.total for part in parts),
            sum(part.relevant for part in parts),
        )
