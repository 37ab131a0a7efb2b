"""Finds the candidates that a ranker re-ranks, by their origin.

A ranker that wins over one origin's candidates can lose over another's (Cohen et al. 2019, section 1), so
a study evaluates several and puts them side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.bm25 import Bm25Options
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.labels import labels_of
from ranking.ranked_lists import RankedLists, stack_lists
from ranking.run_files import lists_of_run
from ranking.sources import Sources

BM25_DEPTH = 1000
"""Documents of BM25's own ranking where a ranker's has no end."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of some queries.

    Args:
        queries: int64 [q], indices of the queries.
        documents: int32 [q, depth], −1 is no document; None stands for the full collection, or a category of it.
        first_stage: how the first stage ranks the same candidates: the figure to beat.
        depth: how many are ranked; None ranks all.
        categories: int32 [q], the category that is searched, where it is one; −1 for the full collection.
    """

    queries: NDArray[np.int64]
    documents: NDArray[np.int32] | None
    first_stage: RankedLists
    depth: int | None
    categories: NDArray[np.int32] | None = None

    def spaces(self, encoded: EncodedCollection) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """What is searched where that is more than a list: some of the queries, by row, and their documents."""
        searched = np.full(len(self.queries), -1) if self.categories is None else self.categories
        for category in np.unique(searched):
            rows, everything = np.flatnonzero(searched == category), np.arange(len(encoded.documents))
            own = encoded.documents.labels
            yield rows, everything if category < 0 or own is None else np.flatnonzero(own[:, 0] == category)

    def take(self, queries: NDArray[np.integer]) -> Candidates:
        """The candidates of some of the queries, which must be there."""
        rows = np.searchsorted(self.queries, queries)
        documents = None if self.documents is None else self.documents[rows]
        categories = None if self.categories is None else self.categories[rows]
        return Candidates(self.queries[rows], documents, self.first_stage.take(rows), self.depth, categories)

    def head(self, depth: int | None) -> Candidates:
        """The first `depth` candidates of each query; None keeps them all."""
        if depth is None or (self.depth is not None and depth >= self.depth):
            return self
        documents = None if self.documents is None else self.documents[:, :depth]
        first = RankedLists(self.first_stage.documents[:, :depth], self.first_stage.scores[:, :depth])
        return Candidates(self.queries, documents, first, depth, self.categories)


class Origin(ABC):
    """An origin of candidates.

    Args:
        depth: candidates a query.

    Raises:
        BadInput: where the depth is below 1.
    """

    def __init__(self, depth: int = 100) -> None:
        self.depth = checked(depth)

    @abstractmethod
    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        """The candidates of `queries` (ascending)."""

    def scored(self, sources: Sources, queries: NDArray[np.int64], documents: NDArray[np.int32]) -> Candidates:
        """The candidates with BM25's scores beside them."""
        scores = sources.bm25(Bm25Options()).search(queries, 0, documents)[1]
        return Candidates(queries, documents, RankedLists(documents, scores), documents.shape[1])


class Bm25Candidates(Origin):
    """BM25's best, as first stages give them; what BM25 misses counts as missed."""

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        lists, _ = sources.bm25(Bm25Options()).search(queries, self.depth)
        return Candidates(queries, lists.documents, lists, self.depth)


class RandomCandidates(Origin):
    """Every relevant document of the query, filled up to `depth` with random others.

    A query with more relevant documents than `depth` keeps them all.

    Args:
        depth: candidates a query.
        seed: draws the others. They are the same for every run of every study with this seed.
    """

    def __init__(self, depth: int = 100, seed: int = 0) -> None:
        super().__init__(depth)
        self.seed = seed

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        relevant = sources.encoded.judgements.relevant()
        size = len(sources.encoded.documents)
        lists: list[tuple[NDArray[np.integer], NDArray[np.floating]]] = []
        for query in queries:
            # A generator a query: its candidates do not depend on which other queries are evaluated.
            rng = np.random.default_rng([self.seed, int(query)])
            own = relevant.of(query)[0]
            drawn = rng.choice(size, min(self.depth + len(own), size), replace=False)
            others = drawn[~np.isin(drawn, own)][: max(self.depth - len(own), 0)]
            documents = np.concatenate([own, others])
            lists.append((documents, np.zeros(len(documents), np.float32)))
        widest = max((len(documents) for documents, _ in lists), default=self.depth)
        return self.scored(sources, queries, stack_lists(lists, max(widest, 1)).documents)


class RunFileCandidates(Origin):
    """The lists of a TREC run, which is the first stage here: its own order is the figure to beat.

    Args:
        path: the run, plain or .gz.
        depth: candidates a query.
    """

    def __init__(self, path: str, depth: int = 100) -> None:
        super().__init__(depth)
        self.path = path

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        lists = lists_of_run([self.path], sources.collection, self.depth).take(queries)
        return Candidates(queries, lists.documents, lists, lists.documents.shape[1])


class FullCollection(Origin):
    """Every document of the collection; the first `depth` of the ranking are measured.

    Args:
        depth: None measures the whole ranking, of which BM25's has `BM25_DEPTH` documents at most.
    """

    def __init__(self, depth: int | None = 100) -> None:
        self.depth = depth if depth is None else checked(depth)  # type: ignore[assignment]

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        lists, _ = sources.bm25(Bm25Options()).search(queries, self.depth or BM25_DEPTH)
        return Candidates(queries, None, lists, self.depth)


class OwnCategory(FullCollection):
    """Every document of the query's category (Saeidi et al. 2017, section 3): one that has none searches everything.

    A relevant document of another category is never found. BM25's own order is that of its first `BM25_DEPTH`
    documents over the collection.

    Args:
        depth: None measures the whole ranking.
    """

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        own = labels_of(sources.encoded.documents, "origin=category")[:, 0]
        of_queries = sources.encoded.queries.labels
        assert of_queries is not None
        asked = of_queries[queries, 0]
        lists, _ = sources.bm25(Bm25Options()).search(queries, BM25_DEPTH)
        inside = (asked[:, None] < 0) | (own[np.maximum(lists.documents, 0)] == asked[:, None])
        lists = lists.keep(inside)
        depth = self.depth or BM25_DEPTH
        return Candidates(
            queries, None, RankedLists(lists.documents[:, :depth], lists.scores[:, :depth]), self.depth, asked
        )


def checked(depth: int) -> int:
    """The depth, if it is one.

    Raises:
        BadInput: where it is below 1.
    """
    if depth < 1:
        raise BadInput(f"depth is {depth}", "origin", "choose a whole number from 1 up")
    return depth
