"""Finds the documents nearest to queries by tf·idf-weighted mean word vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from pyrite.ranking.vectors import directions


def mean_vectors(sources: Sources, texts: Texts, place: str) -> NDArray[np.float32]:
    """Return one unit vector per text: its words' mean, weighted by tf·idf; zero if no word has a vector.

    `place` is the option that needs them, for messages.

    Raises:
        BadInput: if no word at all has a vector.
    """
    refuse(not sources.vectors.known.any(), "needs trained word vectors", place, "choose vectors=glove or vectors=file")
    return directions(texts, sources.vectors.table, sources.encoded.idf)


class MeanVectorIndex:
    """An index of documents by their mean vectors, exact (faiss IndexFlatIP).

    Raises:
        BadInput: if faiss or word vectors are not installed.
    """

    def __init__(self, sources: Sources, place: str) -> None:
        try:
            import faiss
        except ImportError:
            remedy = "pip install 'pyrite-ir[cpu]' or 'pyrite-ir[gpu]'"
            raise BadInput("faiss is not installed", place, remedy) from None
        self.sources, self.place = sources, place
        self._index: Any = faiss.IndexFlatIP(sources.vectors.table.shape[1])
        self._index.add(mean_vectors(sources, sources.encoded.documents, place))

    def search(self, queries: Texts, depth: int) -> RankedLists:
        """Return the nearest `depth` documents of each query, best first; equal cosines in the collection's order.

        A query without a known word gets no list.
        """
        of_queries = mean_vectors(self.sources, queries, self.place)
        scores, documents = self._index.search(of_queries, min(depth, self._index.ntotal))
        order = np.lexsort((documents, -scores), axis=1)
        ranked = RankedLists(
            np.take_along_axis(documents, order, 1).astype(np.int32), np.take_along_axis(scores, order, 1)
        )
        # A query without a known word is near nothing: no list instead of an arbitrary one.
        return ranked.keep(np.broadcast_to((of_queries != 0).any(axis=1, keepdims=True), ranked.documents.shape))
