"""Searches many queries at once, in batches, so that later requests read lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.ascending import find
from pyrite.ranking.shards import Searched

BATCH = 1024
"""Queries that are searched at once."""
FILES = ("listed_queries.npy", "listed_documents.npy", "listed_scores.npy")


@dataclass(frozen=True)
class Listed:
    """The queries, ascending, whose lists are made when a version is built, and the lists' length."""

    queries: NDArray[np.int64]
    depth: int


@dataclass(frozen=True)
class QueryLists:
    """The best documents [n, depth] of some queries [n], ascending, in one version of an index."""

    queries: NDArray[np.int64]
    documents: NDArray[np.int32]
    scores: NDArray[np.float32]

    @classmethod
    def search(cls, index: Searched, vectors: NDArray[np.float32], listed: Listed) -> QueryLists:
        """Search an index with the vectors [queries, dimension] of all queries."""
        shape = len(listed.queries), listed.depth
        documents, scores = np.empty(shape, np.int32), np.empty(shape, np.float32)
        for start in range(0, len(listed.queries), BATCH):
            rows = slice(start, start + BATCH)
            documents[rows], scores[rows] = index.search(vectors[listed.queries[rows]], listed.depth)
        return cls(listed.queries, documents, scores)

    def of(self, queries: NDArray[np.integer], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
        """Return the first `depth` documents of queries [q] and their scores; None if some are missing."""
        if depth > self.documents.shape[1]:
            return None
        places, listed = find(self.queries, queries)
        if not listed.all():
            return None
        return np.array(self.documents[places, :depth]), np.array(self.scores[places, :depth])

    def save(self, folder: Path) -> None:
        """Write the lists into a folder, from which `opened` reads them."""
        arrays: tuple[NDArray[Any], ...] = (self.queries, self.documents, self.scores)
        for name, array in zip(FILES, arrays, strict=True):
            np.save(folder / name, array, allow_pickle=False)

    @classmethod
    def opened(cls, folder: Path) -> QueryLists | None:
        """Map the lists in a folder; return None if there are none, or not all files."""
        try:
            queries, *lists = (np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in FILES)
        except (OSError, ValueError):
            return None
        if any(len(array) != len(queries) for array in lists):
            return None
        return cls(queries, *lists)
