"""Finds the documents nearest to a query by tf·idf-weighted mean word vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.mean_vectors import MeanVectorIndex, mean_vectors
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.sampling.retrieval.ranked import Ranked

PLACE = "function=tfidf"


class TfIdf(Ranked):
    """Nearest documents by the cosine of tf·idf-weighted mean word vectors (Cohen et al. 2019, section 6.2).

    The search is exact (faiss IndexFlatIP); documents with equal cosines keep the collection's order. Needs word
    vectors. A query without a known word gets no list.
    """

    independent = True
    reads_word_vectors = True

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        index: MeanVectorIndex = self.read(sources, lambda: MeanVectorIndex(sources, PLACE))
        return index.search(sources.encoded.queries.take(queries), depth)

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        texts = sources.encoded.documents.take(np.maximum(documents, 0).ravel())
        of_queries = mean_vectors(sources, sources.encoded.queries.take(queries), PLACE)
        of_documents = mean_vectors(sources, texts, PLACE)
        cosines = np.einsum("qd,qmd->qm", of_queries, of_documents.reshape(*documents.shape, -1))
        return np.where(documents < 0, -np.inf, cosines).astype(np.float32)
