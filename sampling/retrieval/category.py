"""Draws documents from the query's subcategory, its category, or outside of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ranking.encoding import EncodedCollection
from ranking.labels import labels_of
from ranking.ranked_lists import RankedLists
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.retrieval.ranked import draw_positions, skip_excluded

if TYPE_CHECKING:
    from ranking.training import Batch

Places = NDArray[np.int64]
SUBCATEGORY, CATEGORY, OUTSIDE = "same subcategory", "same category", "other categories"


class CategoryFunction(RetrievalFunction):
    """Base of functions that draw uniformly from one region of the categories (Saeidi et al. 2017, section 2.1).

    Three regions share out the documents, without those judged relevant: those of the query's category and
    subcategory; the rest of its category; all others. A query without a category has all documents outside; one with a
    category alone has all of the category's in the second. Documents without a category are outside of every one.

    Where a query's region has fewer documents than are asked for, all of them are given and the rest is drawn from
    the next of `regions`, which is its `tier`.

    A subclass names its `regions`, its own first.
    """

    regions: tuple[str, str, str]

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        documents = labels_of(encoded.documents, "function").astype(np.int64)
        queries = encoded.queries.labels
        assert queries is not None
        # Documents in the order of their categories: a region is then one stretch of places, or two around a third.
        width = int(max(documents[:, 1].max(initial=0), queries[:, 1].max(initial=0))) + 2
        pairs = documents[:, 0] * width + documents[:, 1] + 1
        self.order = np.argsort(pairs, kind="stable").astype(np.int32)
        ranked = pairs[self.order]
        category, subcategory = queries.astype(np.int64).T
        nowhere, everywhere = np.zeros(len(queries), np.int64), np.full(len(queries), len(documents))

        def stretch(first: Places, last: Places, known: NDArray[np.bool_]) -> tuple[Places, Places]:
            edges = [np.where(known, np.searchsorted(ranked, edge), nowhere) for edge in (first, last)]
            return edges[0], edges[1]

        whole = stretch(category * width, (category + 1) * width, category >= 0)
        pair = category * width + subcategory + 1
        inner = stretch(pair, pair + 1, (category >= 0) & (subcategory >= 0))
        own = encoded.judgements.relevant()
        place = np.empty(len(documents), np.int64)
        place[self.order] = np.arange(len(documents))
        relevant = np.stack([own.rows(), place[own.documents]])
        bounds = {
            SUBCATEGORY: (*inner, nowhere, nowhere),
            CATEGORY: (*whole, *inner),
            OUTSIDE: (nowhere, everywhere, *whole),
        }
        self._regions = [_Region(relevant, *bounds[name]) for name in self.regions]

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        queries = batch.queries
        documents = np.full((len(queries), count), -1, np.int32)
        tier = np.zeros(documents.shape, np.int8)
        missing = np.full(len(queries), count)
        for step, region in enumerate(self._regions):
            short = np.flatnonzero(missing)
            # By how many are missing: nearly all rows miss all of them, or none.
            for wanted in np.unique(missing[short]):
                rows = short[missing[short] == wanted]
                places, there = region.draw(queries[rows], int(wanted), rng)
                found = np.where(there, self.order[np.where(there, places, 0)], -1)
                documents[rows, count - wanted :] = found
                tier[rows, count - wanted :] = step
                given = there.sum(1)
                missing[rows] -= given
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32), tier=tier)

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # a region has no order


class SameSubcategory(CategoryFunction):
    """Of the query's category and subcategory; then of the category, then from anywhere."""

    independent = True

    regions = (SUBCATEGORY, CATEGORY, OUTSIDE)


class SameCategory(CategoryFunction):
    """Of the query's category but not its subcategory; then of the subcategory, then from anywhere."""

    independent = True

    regions = (CATEGORY, SUBCATEGORY, OUTSIDE)


class OtherCategory(CategoryFunction):
    """Not of the query's category; then of the category, then of the subcategory."""

    independent = True

    regions = (OUTSIDE, CATEGORY, SUBCATEGORY)


class _Region:
    """The places of each query from `start` to `end`, but those from `hole` to `gap` and its relevant documents.

    Args:
        relevant: int64 [2, judgements], query (ascending) and place of each relevant document.
        start, end, hole, gap: int64 by query; the hole lies within.
    """

    def __init__(self, relevant: Places, start: Places, end: Places, hole: Places, gap: Places) -> None:
        self.start, self.hole, self.width = start, hole, gap - hole
        query, place = relevant
        inside = (place >= start[query]) & (place < end[query]) & ~((place >= hole[query]) & (place < gap[query]))
        query, place = query[inside], place[inside]
        # As steps from the start, the hole left out: steps of relevant documents, ascending within a query.
        steps = place - start[query] - np.where(place >= gap[query], self.width[query], 0)
        order = np.lexsort((steps, query))
        counts = np.bincount(query, minlength=len(start))
        self.offsets = np.concatenate([[0], np.cumsum(counts)])
        # How many other steps lie before each relevant one: past as many of them a step is moved.
        self.before = steps[order] - (np.arange(len(order)) - self.offsets[query[order]])
        self.counts = end - start - self.width - counts

    def draw(
        self, queries: NDArray[np.integer], count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`count` distinct places of each query [q, count], and which of them there are."""
        counts = self.counts[queries]
        drawn = draw_positions(counts, count, rng)
        steps = skip_excluded(drawn, self.before, self.offsets, queries)
        start, hole = self.start[queries][:, None], self.hole[queries][:, None]
        places = start + steps
        return places + np.where(places >= hole, self.width[queries][:, None], 0), np.arange(count) < counts[:, None]
