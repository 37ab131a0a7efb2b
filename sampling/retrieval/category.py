"""Draws documents from the query's subcategory, its category, or outside of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.labels import labels_of
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.retrieval.ranked import draw_positions, skip_excluded
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch

Positions = NDArray[np.int64]
SUBCATEGORY, CATEGORY, OUTSIDE = "same subcategory", "same category", "other categories"
WHOLE = "whole category"


class CategoryFunction(RetrievalFunction):
    """Base of functions that draw uniformly from one region of the categories (Saeidi et al. 2017, section 2.1).

    Three regions divide the documents that are not judged relevant: those of the query's category and subcategory; the
    rest of its category; all others. A query without a category has all documents in the third region; a query with a
    category but no subcategory has all of the category's in the second. Documents without a category are outside of
    every category.

    If a query's region has fewer documents than requested, all of them are returned and the rest is drawn from the next
    of `regions`, whose number is their `tier`.

    A subclass defines `regions`, the first of which it draws from.
    """

    regions: tuple[str, ...]

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        documents = labels_of(encoded.documents, "function").astype(np.int64)
        queries = encoded.queries.labels
        assert queries is not None
        # In documents ordered by category a region is one stretch of positions, or two around a hole.
        width = int(max(documents[:, 1].max(initial=0), queries[:, 1].max(initial=0))) + 2
        pairs = documents[:, 0] * width + documents[:, 1] + 1
        self.order = np.argsort(pairs, kind="stable").astype(np.int32)
        ranked = pairs[self.order]
        category, subcategory = queries.astype(np.int64).T
        nowhere, everywhere = np.zeros(len(queries), np.int64), np.full(len(queries), len(documents))

        def stretch(first: Positions, last: Positions, known: NDArray[np.bool_]) -> tuple[Positions, Positions]:
            return np.searchsorted(ranked, first) * known, np.searchsorted(ranked, last) * known

        whole = stretch(category * width, (category + 1) * width, category >= 0)
        pair = category * width + subcategory + 1
        inner = stretch(pair, pair + 1, (category >= 0) & (subcategory >= 0))
        judged = encoded.judgements.relevant()
        position = np.empty(len(documents), np.int64)
        position[self.order] = np.arange(len(documents))
        relevant = np.stack([judged.rows(), position[judged.documents]])
        bounds = {
            SUBCATEGORY: (*inner, nowhere, nowhere),
            CATEGORY: (*whole, *inner),
            WHOLE: (*whole, nowhere, nowhere),
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
            # Grouped by the number that is missing: nearly all rows miss all of them, or none.
            for wanted in np.unique(missing[short]):
                rows = short[missing[short] == wanted]
                positions, present = region.draw(queries[rows], int(wanted), rng)
                drawn = np.where(present, self.order[np.where(present, positions, 0)], -1)
                documents[rows, count - wanted :] = drawn
                tier[rows, count - wanted :] = step
                missing[rows] -= present.sum(1)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32), tier=tier)

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # a region has no order


class SameSubcategory(CategoryFunction):
    """Documents of the query's category and subcategory; then of the category, then any."""

    independent = True

    regions = (SUBCATEGORY, CATEGORY, OUTSIDE)


class SameCategory(CategoryFunction):
    """Documents of the query's category, its subcategory among them; then any.

    Args:
        whole: whether the category's documents include those of the subcategory; if not, these come next.
    """

    independent = True

    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        whole: bool = True,
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, pick=pick, name=name)
        self.regions = (WHOLE, OUTSIDE) if whole else (CATEGORY, SUBCATEGORY, OUTSIDE)


class OtherCategory(CategoryFunction):
    """Documents of other categories; then of the query's category, then of its subcategory."""

    independent = True

    regions = (OUTSIDE, CATEGORY, SUBCATEGORY)


class _Region:
    """The positions of each query from `start` to `end`, without those from `hole` to `gap` and its relevant documents.

    Args:
        relevant: int64 [2, judgements], query (ascending) and position of each relevant document.
        start, end, hole, gap: int64 by query; the hole lies within.
    """

    def __init__(self, relevant: Positions, start: Positions, end: Positions, hole: Positions, gap: Positions) -> None:
        self.start, self.hole, self.width = start, hole, gap - hole
        query, at = relevant
        inside = (at >= start[query]) & (at < end[query]) & ~((at >= hole[query]) & (at < gap[query]))
        query, at = query[inside], at[inside]
        # Relevant documents as steps from the start without the hole, ascending within a query.
        steps = at - start[query] - np.where(at >= gap[query], self.width[query], 0)
        order = np.lexsort((steps, query))
        counts = np.bincount(query, minlength=len(start))
        self.offsets = np.concatenate([[0], np.cumsum(counts)])
        # The number of other steps before each relevant one, by which `skip_excluded` moves a step.
        self.before = steps[order] - (np.arange(len(order)) - self.offsets[query[order]])
        self.counts = end - start - self.width - counts

    def draw(
        self, queries: NDArray[np.integer], count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Draw `count` distinct positions of each query [q, count], and return whether each position exists."""
        counts = self.counts[queries]
        drawn = draw_positions(counts, count, rng)
        steps = skip_excluded(drawn, self.before, self.offsets, queries)
        start, hole = self.start[queries][:, None], self.hole[queries][:, None]
        positions = start + steps
        skipped = np.where(positions >= hole, self.width[queries][:, None], 0)
        return positions + skipped, np.arange(count) < counts[:, None]
