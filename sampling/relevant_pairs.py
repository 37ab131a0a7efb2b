"""Looks up which documents are judged relevant for which query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.ascending import find
from ranking.encoding import Judgements


class RelevantPairs:
    """Looks up quickly which documents are judged relevant for which query.

    Args:
        judgements: the judgements of the collection.
        size: the number of documents in the collection.
    """

    def __init__(self, judgements: Judgements, size: int) -> None:
        relevant = judgements.relevant()
        self.size = size
        self.counts = np.diff(relevant.offsets)
        # A query and a document are one number; the numbers ascend because judgements do.
        self._keys = relevant.rows() * size + relevant.documents

    def among(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents [b, m] are judged relevant for their query [b]; a missing one (−1) is not."""
        _, judged = find(self._keys, np.asarray(queries, np.int64)[:, None] * self.size + documents)
        return judged & (documents >= 0)
