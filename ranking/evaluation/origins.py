"""Makes the candidates that a ranker re-ranks, by their origin.

A ranker that wins over one origin's candidates can lose over another's (Cohen et al. 2019, section 1), so
a study evaluates several and shows them next to each other.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bm25 import Bm25Options
from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.contents import repeated_in_row
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.labels import labels_of
from pyrite.ranking.part import Part
from pyrite.ranking.ranked_lists import RankedLists, stack_lists
from pyrite.ranking.run_files import lists_of_run
from pyrite.ranking.sources import Sources

BM25_DEPTH = 1000
"""The depth of BM25's ranking if a ranker's has no limit."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of some queries.

    Args:
        queries: int64 [q], indices of the queries.
        documents: int32 [q, depth], −1 is no document. None for the full collection, or a category of it.
        first_stage: the first stage's ranking of the same candidates: the figure to beat.
        depth: the number of documents ranked. None ranks all.
        categories: int32 [q], the category that is searched; −1 for the full collection. None if none is.
    """

    queries: NDArray[np.int64]
    documents: NDArray[np.int32] | None
    first_stage: RankedLists
    depth: int | None
    categories: NDArray[np.int32] | None = None

    def spaces(self, encoded: EncodedCollection) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the search spaces that are not lists: rows of some queries, and the documents searched for them."""
        searched = np.full(len(self.queries), -1) if self.categories is None else self.categories
        for category in np.unique(searched):
            rows, everything = np.flatnonzero(searched == category), np.arange(len(encoded.documents))
            labels = encoded.documents.labels
            inside = everything if category < 0 or labels is None else np.flatnonzero(labels[:, 0] == category)
            yield rows, inside if encoded.counts_each else np.unique(encoded.counted(inside))

    def take(self, queries: NDArray[np.integer]) -> Candidates:
        """Return the candidates of some of the queries, which must be included."""
        rows = np.searchsorted(self.queries, queries)
        documents = None if self.documents is None else self.documents[rows]
        categories = None if self.categories is None else self.categories[rows]
        return Candidates(self.queries[rows], documents, self.first_stage.take(rows), self.depth, categories)

    def head(self, depth: int | None) -> Candidates:
        """Return the first `depth` candidates of each query; None keeps them all."""
        if depth is None or (self.depth is not None and depth >= self.depth):
            return self
        documents = None if self.documents is None else self.documents[:, :depth]
        return Candidates(self.queries, documents, self.first_stage.head(depth), depth, self.categories)


class Origin(Part):
    """The base of all origins of candidates.

    Args:
        depth: candidates per query.
    """

    searches: ClassVar[bool] = True
    """Whether a greater depth finds the same candidates and more."""

    @checked
    def __init__(self, depth: Annotated[int, AtLeast(1)] = 100) -> None:
        self.depth = depth

    def of(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        """Return the candidates of `queries` (ascending) without the queries themselves, and without duplicates.

        A query that is a document of the collection does not find itself (`collection.self=drop`). With
        `collection.duplicates=merge` documents with the same text are one candidate, the first of them.
        """
        encoded = sources.encoded
        if encoded.itself is None and encoded.counts_each:
            return self.candidates(sources, queries)
        deeper, depth = copy.copy(self), self.depth if self.searches else None
        if depth is not None:
            deeper.depth = encoded.most_documents(depth + 1)  # with the query itself
        found = deeper.candidates(sources, queries)
        first = without_repeats(found.first_stage, encoded, queries, depth)
        if found.documents is None:
            return replace(found, first_stage=first, depth=depth)
        lists = RankedLists(found.documents, np.zeros(found.documents.shape, np.float32))
        documents = without_repeats(lists, encoded, queries, depth).documents
        return Candidates(queries, documents, first, documents.shape[1])

    @abstractmethod
    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        """Return the candidates of `queries` (ascending), as the origin finds them."""


def without_repeats(
    lists: RankedLists, encoded: EncodedCollection, queries: NDArray[np.integer], depth: int | None = None
) -> RankedLists:
    """Return lists [q] of `queries` [q] without the queries themselves, and of each merged text the first document.

    Args:
        depth: the number of documents that are kept; None keeps all.
    """
    documents = encoded.counted(lists.documents)
    out = itself_among(encoded, queries, documents)
    if not encoded.counts_each:
        out |= repeated_in_row(documents)
    return RankedLists(documents.astype(np.int32), lists.scores).keep(~out).head(depth)


def itself_among(
    encoded: EncodedCollection, queries: NDArray[np.integer], documents: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Return which of the documents [q, m] are the query itself."""
    if encoded.itself is None:
        return np.zeros(documents.shape, bool)
    itself = encoded.itself[queries][:, None]
    return (encoded.contents(documents) == itself) & (itself >= 0) & (documents >= 0)


class Bm25Candidates(Origin):
    """BM25's best documents; relevant documents that BM25 misses count as missed."""

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        lists, _ = sources.bm25(Bm25Options()).search(queries, self.depth)
        return Candidates(queries, lists.documents, lists, self.depth)


class RandomCandidates(Origin):
    """Every relevant document of the query, filled up to `depth` with random others.

    A query with more relevant documents than `depth` keeps them all.

    Args:
        seed: the seed of the random documents, which are the same for every run of every study with this seed.
    """

    searches = False

    def __init__(self, depth: int = 100, seed: int = 0) -> None:
        super().__init__(depth)
        self.seed = seed

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        encoded = sources.encoded
        relevant = encoded.counted_judgements().relevant()
        every = np.unique(encoded.counted(np.arange(len(encoded.documents))))
        size = len(every)
        lists: list[tuple[NDArray[np.integer], NDArray[np.floating]]] = []
        for row, query in enumerate(queries):
            # One generator per query: its candidates do not depend on the other queries.
            rng = np.random.default_rng([self.seed, int(query)])
            positives = relevant.of(query)[0]
            drawn = every[rng.choice(size, min(self.depth + len(positives), size), replace=False)]
            barred = np.isin(drawn, positives) | itself_among(encoded, queries[row : row + 1], drawn[None])[0]
            others = drawn[~barred][: max(self.depth - len(positives), 0)]
            documents = np.concatenate([positives, others])
            lists.append((documents, np.zeros(len(documents), np.float32)))
        widest = max((len(documents) for documents, _ in lists), default=self.depth)
        together = stack_lists(lists, max(widest, 1)).documents
        scores = sources.bm25(Bm25Options()).search(queries, 0, together)[1]
        return Candidates(queries, together, RankedLists(together, scores), together.shape[1])


class RunFileCandidates(Origin):
    """The lists of a TREC run, which is the first stage here: its order is the figure to beat.

    Args:
        path: the run, plain or compressed.
        strict: whether to stop at the first broken line or unknown document; otherwise they are left out and counted.
        encoding: the encoding of the file.
    """

    def __init__(self, path: str, depth: int = 100, strict: bool = True, encoding: str = "utf-8") -> None:
        super().__init__(depth)
        self.path, self.strict, self.encoding = path, strict, encoding

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        lists = lists_of_run([self.path], sources.collection, self.depth, self.strict, self.encoding).take(queries)
        return Candidates(queries, lists.documents, lists, lists.documents.shape[1])


class FullCollection(Origin):
    """Every document of the collection; the first `depth` of the ranking are measured.

    Args:
        depth: the number of ranks measured. None measures the whole ranking, of which BM25's has at most `BM25_DEPTH`
            documents.
    """

    @checked
    def __init__(self, depth: Annotated[int, AtLeast(1)] | None = 100) -> None:
        self.depth = depth  # type: ignore[assignment]

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        lists, _ = sources.bm25(Bm25Options()).search(queries, self.depth or BM25_DEPTH)
        return Candidates(queries, None, lists, self.depth)


class OwnCategory(FullCollection, depth=None):
    """Every document of the query's category (Saeidi et al. 2017, section 3); all documents if it has none.

    A relevant document of another category is never found. BM25's order is that of its first `BM25_DEPTH`
    documents over the collection.
    """

    def candidates(self, sources: Sources, queries: NDArray[np.int64]) -> Candidates:
        of_documents = labels_of(sources.encoded.documents, "origin=category")[:, 0]
        of_queries = sources.encoded.queries.labels
        assert of_queries is not None
        categories = of_queries[queries, 0]
        lists, _ = sources.bm25(Bm25Options()).search(queries, BM25_DEPTH)
        inside = (categories[:, None] < 0) | (of_documents[np.maximum(lists.documents, 0)] == categories[:, None])
        lists = lists.keep(inside).head(self.depth or BM25_DEPTH)
        return Candidates(queries, None, lists, self.depth, categories)
