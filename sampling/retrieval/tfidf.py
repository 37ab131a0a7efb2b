"""Finds the documents nearest to a query by tf·idf-weighted mean word vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.texts import Texts
from ranking.vectors import directions
from sampling.retrieval.ranked import Ranked


class TfIdf(Ranked):
    """Nearest by cosine among tf·idf-weighted mean word vectors (Cohen et al. 2019, section 6.2).

    Exact (faiss IndexFlatIP); within a list, equal cosines stand in the collection's order. Needs word vectors.
    A query without a known word gets no list.

    Args:
        depth: length of a list.
    """

    def __init__(self, depth: int = 100) -> None:
        super().__init__(depth)
        self._index: tuple[Sources, Any] | None = None

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        try:
            import faiss
        except ImportError:
            raise BadInput(
                "faiss is not installed", "function=tfidf", "pip install 'pyrite[cpu]' or 'pyrite[gpu]'"
            ) from None
        if self._index is None or self._index[0] is not sources:
            index = faiss.IndexFlatIP(sources.vectors.table.shape[1])
            index.add(self._means(sources, sources.encoded.documents))
            self._index = (sources, index)
        index = self._index[1]
        of_queries = self._means(sources, sources.encoded.queries.take(queries))
        scores, documents = index.search(of_queries, min(depth, index.ntotal))
        order = np.lexsort((documents, -scores), axis=1)
        ranked = RankedLists(
            np.take_along_axis(documents, order, 1).astype(np.int32), np.take_along_axis(scores, order, 1)
        )
        # A query without a known word is near nothing: no list instead of an arbitrary one.
        return ranked.keep(np.broadcast_to((of_queries != 0).any(axis=1, keepdims=True), ranked.documents.shape))

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        of_queries = self._means(sources, sources.encoded.queries.take(queries))
        of_documents = self._means(sources, sources.encoded.documents.take(np.maximum(documents, 0).ravel()))
        cosines = np.einsum("qd,qmd->qm", of_queries, of_documents.reshape(*documents.shape, -1))
        return np.where(documents < 0, -np.inf, cosines).astype(np.float32)

    def _means(self, sources: Sources, texts: Texts) -> NDArray[np.float32]:
        """Unit vectors, one a text; zero where no word has a vector."""
        if not sources.vectors.known.any():
            raise BadInput("needs trained word vectors", "function=tfidf", "choose vectors=glove or vectors=file")
        return directions(texts, sources.vectors.table, sources.encoded.idf)
