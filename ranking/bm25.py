"""Ranks a whole collection by BM25 and scores chosen pairs, in one pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.counted_postings import CountedPostings, idf_of, weigh
from pyrite.ranking.postings import Postings, Searched, largest_weights, search_postings
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.terms import Bm25Options, TermNumbers

__all__ = ["Bm25", "Bm25Index", "Bm25Options", "Searched"]


class Bm25Index(ABC):
    """The base of BM25 indexes: ranks documents for queries by their terms, wherever the postings are.

    Attributes:
        queries: the terms of each of the collection's queries.
    """

    queries: Sequence[NDArray[np.integer]]

    def search(
        self,
        queries: NDArray[np.integer],
        depth: int,
        pairs: NDArray[np.integer] | None = None,
        threads: int | None = None,
    ) -> tuple[RankedLists, NDArray[np.float32]]:
        """Return the best `depth` documents of each query, and the scores of `pairs` [queries, m].

        Equal scores are in the collection's order, on every machine. Documents that share no
        term with the query are not listed.

        Args:
            pairs: int [queries, m], documents to score for each query; −1 is scored −inf.
            threads: the number of threads. None uses every available core. The result does not depend on it.
        """
        wanted = np.full((len(queries), 0), -1, np.int32) if pairs is None else pairs.astype(np.int32)
        documents, scores, of_pairs = self.find([self.queries[query] for query in queries], depth, wanted, threads)
        return RankedLists(documents, scores), of_pairs

    @abstractmethod
    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        """Search for queries with these terms, see `search`."""


class Bm25(TermNumbers, Bm25Index):
    """An inverted index with BM25's score of every posting of a collection's documents.

    Args:
        every_term: whether to index the terms that none of the collection's queries has, for other queries.
    """

    def __init__(self, collection: Collection, options: Bm25Options, every_term: bool = False) -> None:
        options = options.of(collection)
        super().__init__(options)
        self.queries = self.tokenize(collection.queries)
        asked, counted = len(self.terms), CountedPostings()
        for flat, sizes in self.flat(collection.documents):
            counted.add(flat, sizes, len(self.terms) if every_term else asked)
        self.indexed = len(self.terms) if every_term else asked
        offsets, documents, weights, lengths = counted.take(self.indexed)  # counts first, which `weigh` replaces
        self.size = len(lengths)
        idf = idf_of(self.size, np.diff(offsets))
        mean = int(lengths.sum(dtype=np.int64)) / self.size if lengths.any() else 1.0
        weigh(offsets, documents, weights, lengths, mean, idf, options, weights)
        self._postings = Postings(offsets, documents, weights, largest_weights(offsets, weights), self.size)

    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        return search_postings(self._postings, terms, depth, pairs, threads)
