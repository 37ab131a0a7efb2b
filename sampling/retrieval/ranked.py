"""Serves retrieval functions whose lists are ranked before training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch


class ListRows(NamedTuple):
    """The lists of some queries.

    Args:
        lists: lists, best first, without relevant documents; they may be of other queries too.
        rows: int64 [q], the number of each query's list in `lists`.
        counts: int64 [q], its length.
    """

    lists: RankedLists
    rows: NDArray[np.integer]
    counts: NDArray[np.integer]

    @classmethod
    def of(cls, lists: RankedLists) -> ListRows:
        """Take one list for each query, in order."""
        return cls(lists, np.arange(len(lists)), lists.counts)

    def at(self, positions: NDArray[np.integer]) -> CandidateBatch:
        """Return the documents at the positions [q, count] of each list, as many as its length allows."""
        present = np.arange(positions.shape[1]) < self.counts[:, None]
        places = np.asarray(self.rows)[:, None], np.where(present, positions, 0)
        documents = np.where(present, self.lists.documents[places], -1)
        return CandidateBatch(documents, np.where(present, self.lists.scores[places], -np.inf))


class FromLists(RetrievalFunction):
    """Base of functions that offer documents of one list per query: a subclass defines `lists_of`."""

    @abstractmethod
    def lists_of(self, queries: NDArray[np.integer]) -> ListRows:
        """Return the list of each query."""

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        lists = self.lists_of(batch.queries)
        return lists.at(draw_positions(lists.counts, count, rng))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.lists_of(batch.queries).at(np.broadcast_to(np.arange(count), (len(batch), count)))


class Ranked(FromLists):
    """Base of functions whose lists are fixed while rankers train: a subclass defines `search` only.

    Args:
        depth: length of a list.
    """

    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        depth: Annotated[int, Positive] = 100,
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, pick=pick, name=name)
        self.depth = depth
        self._read: tuple[Sources, Any] | None = None

    def read(self, sources: Sources, make: Callable[[], Any]) -> Any:
        """Return what `make` returns for these sources, made once: `search` may be called for a few queries at a time.

        A subclass calls it with one `make`.
        """
        if self._read is None or self._read[0] is not sources:
            self._read = sources, make()
        return self._read[1]

    def rank(
        self, sources: Sources, queries: NDArray[np.integer] | None = None, depth: int | None = None
    ) -> RankedLists:
        all_queries = np.arange(len(sources.encoded.queries))
        return self.search(sources, all_queries if queries is None else queries, self.depth if depth is None else depth)

    @abstractmethod
    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        """Return the first `depth` documents of each query, best first (arguments: see `RetrievalFunction.rank`)."""

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        if lists is None:
            raise ValueError(f"{type(self).__name__} ranks ahead of time, and received no lists")
        self.lists, self.counts = lists, lists.counts

    def lists_of(self, queries: NDArray[np.integer]) -> ListRows:
        # No copy of the batch's lists: they are long, and few of their documents are drawn.
        return ListRows(self.lists, queries, self.counts[queries])


def draw_positions(counts: NDArray[np.integer], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` distinct positions below each row's `counts`, uniformly: int64 [rows, count].

    A row with fewer than `count` positions has each once, followed by arbitrary ones. Floyd's algorithm (Bentley and
    Floyd 1987), for all rows at once: its cost depends on the number of draws, not on the length of the lists. The set
    is uniform, its order is not: low positions tend to come first.
    """
    draws = rng.random((len(counts), count))
    positions = np.full((len(counts), count), -1, np.int64)
    # The j-th draw is uniform over 0 … top; if it hits an earlier position, `top` itself is new.
    for drawn in range(count):
        top = np.maximum(counts - count, 0) + drawn
        position = (draws[:, drawn] * (top + 1)).astype(np.int64)
        hit = (positions[:, :drawn] == position[:, None]).any(axis=1)
        positions[:, drawn] = np.where(hit, top, position)
    return positions


def skip_excluded(
    steps: NDArray[np.int64], before: NDArray[np.integer], offsets: NDArray[np.int64], queries: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Move steps [q, n], counted without the ones that are left out for each query, past those.

    Args:
        before: for each one left out the number of others before it, ascending within a query.
        offsets: the start of each query in `before`.
    """
    starts = offsets[queries]
    left_out = offsets[np.asarray(queries) + 1] - starts
    moved = steps.copy()
    for nth in range(int(left_out.max(initial=0))):
        has = nth < left_out
        moved += has[:, None] & (steps >= before[np.where(has, starts + nth, 0)][:, None])
    return moved
