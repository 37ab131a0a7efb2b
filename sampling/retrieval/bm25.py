"""Ranks documents by BM25."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.bm25 import Bm25Options
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.retrieval.ranked import Ranked


class Bm25Function(Ranked):
    """The documents that BM25 ranks first: hard negatives for a ranker that re-ranks BM25.

    Args:
        depth: length of a list.
        k1, b, stemming, stop_words: see `ranking.bm25.Bm25Options`.
    """

    independent = True

    def __init__(
        self,
        depth: int = 100,
        k1: float = 0.9,
        b: float = 0.4,
        stemming: str | None = "english",
        stop_words: bool = True,
    ) -> None:
        super().__init__(depth)
        self.options = Bm25Options(k1, b, stemming, stop_words)

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        return sources.bm25(self.options).search(queries, depth)[0]

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        scores = sources.bm25(self.options).search(queries, 0, documents)[1]
        return np.where(scores > 0, scores, -np.inf).astype(np.float32)  # without a common term it finds nothing
