"""Records which documents a guard dropped, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

REASONS = ("scores above the positive", "within the absolute margin", "within the relative margin", "above the ceiling")
"""Why a document was dropped."""
COLUMNS = {
    "queries": np.int32, "documents": np.int32, "scores": np.float32, "positives": np.float32, "reasons": np.int8,
}  # fmt: skip
"""Type of each array of `GuardedDocuments`."""


@dataclass(frozen=True)
class GuardedDocuments:
    """The documents that a guard dropped, and why; per query at most as many as its list is long.

    Args:
        queries, documents: int32 [n], indices.
        scores: float32 [n], the function's scores of the documents.
        positives: float32 [n], the score of the positive that each was compared with.
        reasons: int8 [n], indices into `REASONS`.
        total: the number of documents that were dropped before the lists were full.
        relevant: the number of documents judged relevant that it would also have dropped, without those of the score
            that a query's documents are compared with. If they are many, the guard drops relevant documents rather than
            noise.
        repeats: the number of documents left out of the lists because they have the text of a relevant document or of
            one ahead of them, or are the query itself.
        unlimited: the number of queries for which margins drop nothing, since no relevant document has a score.
    """

    queries: NDArray[np.int32]
    documents: NDArray[np.int32]
    scores: NDArray[np.float32]
    positives: NDArray[np.float32]
    reasons: NDArray[np.int8]
    total: int = 0
    relevant: int = 0
    repeats: int = 0
    unlimited: int = 0

    def by_query(self, queries: NDArray[np.integer]) -> dict[int, GuardedDocuments]:
        """Return the record of each of some queries."""
        order, wanted, records = np.argsort(self.queries, kind="stable"), np.unique(queries), {}
        first, end = (np.searchsorted(self.queries, wanted, side, sorter=order) for side in ("left", "right"))
        for query, start, stop in zip(wanted.tolist(), first, end, strict=True):
            columns: dict[str, Any] = {name: getattr(self, name)[order[start:stop]] for name in COLUMNS}
            records[query] = GuardedDocuments(**columns, total=int(stop - start))
        return records

    @classmethod
    def joined(cls, parts: Sequence[GuardedDocuments]) -> GuardedDocuments:
        """Concatenate several records."""
        columns: dict[str, Any] = {
            name: np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)]).astype(kind)
            for name, kind in COLUMNS.items()
        }
        counts = {
            name: sum(getattr(part, name) for part in parts) for name in ("total", "relevant", "repeats", "unlimited")
        }
        return cls(**columns, **counts)
