"""Ranks a whole collection by BM25 and scores chosen pairs, in one pass."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import bm25s
import numpy as np
from numba import njit
from numpy.typing import NDArray

from ranking.collections.collection import Collection
from ranking.ranked_lists import RankedLists
from ranking.terms import Bm25Options, Terms

__all__ = ["Bm25", "Bm25Index", "Bm25Options", "available_cores", "search_postings"]


Searched = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]
"""Documents and scores [queries, depth], best first, and scores of pairs [queries, m]."""


class Bm25Index(ABC):
    """Ranks documents for queries by their terms, wherever the postings are.

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
        """The best `depth` documents of each query, and the scores of `pairs`.

        Equal scores stand in the collection's order, on every machine. Documents that share no
        term with the query are not listed.

        Args:
            queries: indices of the collection's queries.
            depth: length of a list.
            pairs: int [queries, m], documents to score for each query; −1 is scored −inf.
            threads: how many to use; every available core when None. The result does not depend on it.

        Returns:
            The lists, and float32 [queries, m].
        """
        wanted = np.full((len(queries), 0), -1, np.int32) if pairs is None else pairs.astype(np.int32)
        documents, scores, of_pairs = self.find([self.queries[query] for query in queries], depth, wanted, threads)
        return RankedLists(documents, scores), of_pairs

    @abstractmethod
    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        """The same for queries of these terms."""


class Bm25(Terms, Bm25Index):
    """An inverted index with BM25's score of every posting.

    Args:
        collection: its documents are indexed; its queries are what `search` takes by index.
        options: text processing, k1 and b.
    """

    def __init__(self, collection: Collection, options: Bm25Options) -> None:
        super().__init__(options)
        documents = self.tokenize(collection.documents)
        self.size = len(documents)
        index = bm25s.BM25(k1=options.k1, b=options.b)
        if any(len(document) for document in documents):
            index.index((documents, self.terms), create_empty_token=False, show_progress=False)
            postings = index.scores
        else:  # a collection of stop words alone
            postings = {"data": np.zeros(0), "indices": np.zeros(0), "indptr": np.zeros(1)}
        self._weights = postings["data"].astype(np.float32)
        self._documents = postings["indices"].astype(np.int32)
        self._offsets = postings["indptr"].astype(np.int64)
        self.indexed = len(self._offsets) - 1  # terms that some document holds
        # A query's term that no document holds has no postings: leave it out.
        self.queries = [query[query < self.indexed] for query in self.tokenize(collection.queries)]

    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        postings = Postings(self._offsets, self._documents, self._weights, self.size)
        return search_postings(postings, terms, depth, pairs, threads)


@dataclass(frozen=True)
class Postings:
    """An inverted index: which documents have a term, and BM25's score of each.

    Args:
        offsets: int64, one longer than there are terms; those of a term are `documents[offsets[t]:offsets[t+1]]`.
        documents: int32, ascending within a term.
        weights: float32.
        size: how many documents there are.
    """

    offsets: NDArray[np.int64]
    documents: NDArray[np.int32]
    weights: NDArray[np.float32]
    size: int


def search_postings(
    postings: Postings,
    terms: Sequence[NDArray[np.integer]],
    depth: int,
    pairs: NDArray[np.int32],
    threads: int | None,
) -> Searched:
    """The best `depth` documents of each query, and the scores of `pairs`; as `Bm25Index.search`.

    Args:
        postings: to search in.
        terms: of each query.
        depth: length of a list.
        pairs: int32 [queries, m].
        threads: how many to use; every available core when None.

    Returns:
        Documents and scores [queries, depth], and scores [queries, m].
    """
    documents = np.full((len(terms), depth), -1, np.int32)
    scores = np.full((len(terms), depth), -np.inf, np.float32)
    pair_scores = np.full(pairs.shape, -np.inf, np.float32)
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in terms])]).astype(np.int64)
    flat = np.concatenate(terms).astype(np.int64) if len(terms) else np.zeros(0, np.int64)

    def search_part(rows: NDArray[np.integer]) -> None:
        _search(
            postings.offsets, postings.documents, postings.weights, postings.size, flat, offsets,
            rows[0], rows[-1] + 1, documents, scores, pairs, pair_scores,
        )  # fmt: skip

    threads = threads or available_cores()
    parts = [rows for rows in np.array_split(np.arange(len(terms)), threads * 8) if len(rows)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(search_part, parts))
    return documents, scores, pair_scores


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@njit(nogil=True, cache=True)
def _worse(score_a, document_a, score_b, document_b):  # type: ignore[no-untyped-def]  # pragma: no cover
    return score_a < score_b or (score_a == score_b and document_a > document_b)


@njit(nogil=True, cache=True)
def _sift_down(heap_scores, heap_documents, size):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Restore the heap (the worst document on top) after its top was replaced."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and _worse(
            heap_scores[child + 1], heap_documents[child + 1], heap_scores[child], heap_documents[child]
        ):
            child += 1
        if not _worse(heap_scores[child], heap_documents[child], heap_scores[parent], heap_documents[parent]):
            return
        heap_scores[parent], heap_scores[child] = heap_scores[child], heap_scores[parent]
        heap_documents[parent], heap_documents[child] = heap_documents[child], heap_documents[parent]
        parent = child


@njit(nogil=True, cache=True)
def _search(  # type: ignore[no-untyped-def]  # pragma: no cover
    postings_offsets, postings_documents, postings_weights, size, terms, offsets, first, last,
    documents, scores, pairs, pair_scores,
):  # fmt: skip
    """Score term at a time, keep the best in a heap; rows `first` to `last` of the outputs are filled."""
    depth = documents.shape[1]
    score = np.zeros(size, np.float32)
    touched = np.empty(size, np.int32)
    heap_scores = np.empty(depth, np.float32)
    heap_documents = np.empty(depth, np.int32)
    for query in range(first, last):
        count = 0
        for position in range(offsets[query], offsets[query + 1]):
            term = terms[position]
            for posting in range(postings_offsets[term], postings_offsets[term + 1]):
                document = postings_documents[posting]
                if score[document] == 0.0:
                    touched[count] = document
                    count += 1
                score[document] += postings_weights[posting]
        for column in range(pairs.shape[1]):
            if pairs[query, column] >= 0:
                pair_scores[query, column] = score[pairs[query, column]]
        held = 0
        for place in range(count):
            document = touched[place]
            value = score[document]
            score[document] = 0.0
            if held < depth:
                # Sift up.
                child = held
                held += 1
                heap_scores[child], heap_documents[child] = value, document
                while child > 0:
                    parent = (child - 1) // 2
                    if not _worse(
                        heap_scores[child], heap_documents[child], heap_scores[parent], heap_documents[parent]
                    ):
                        break
                    heap_scores[parent], heap_scores[child] = heap_scores[child], heap_scores[parent]
                    heap_documents[parent], heap_documents[child] = (
                        heap_documents[child],
                        heap_documents[parent],
                    )
                    child = parent
            elif depth > 0 and _worse(heap_scores[0], heap_documents[0], value, document):
                heap_scores[0], heap_documents[0] = value, document
                _sift_down(heap_scores, heap_documents, held)
        # The worst comes off the heap first, so fill the list from its end.
        for place in range(held - 1, -1, -1):
            documents[query, place], scores[query, place] = heap_documents[0], heap_scores[0]
            heap_scores[0], heap_documents[0] = heap_scores[place], heap_documents[place]
            _sift_down(heap_scores, heap_documents, place)
