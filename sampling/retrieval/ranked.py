"""Serves retrieval functions whose lists are ranked before training."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.retrieval.function import CandidateBatch, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch


class Ranked(RetrievalFunction):
    """Base of functions whose lists are fixed while rankers train: a subclass writes `search` alone.

    Args:
        depth: length of a list.

    Raises:
        BadInput: where the depth is below 1.
    """

    def __init__(self, depth: int = 100) -> None:
        if depth < 1:
            raise BadInput(f"depth is {depth}", "function", "choose a whole number from 1 up")
        self.depth = depth

    def rank(
        self, sources: Sources, queries: NDArray[np.integer] | None = None, depth: int | None = None
    ) -> RankedLists:
        every = np.arange(len(sources.encoded.queries))
        return self.search(sources, every if queries is None else queries, self.depth if depth is None else depth)

    @abstractmethod
    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        """The first `depth` documents of each query, best first; arguments as of `rank`."""

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        if lists is None:
            raise ValueError(f"{type(self).__name__} ranks ahead of time and got no lists")
        self.lists = lists
        self.counts = lists.counts

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        counts = self.counts[batch.queries]
        places = draw_positions(counts, count, rng)
        return self._candidates(batch.queries, places, np.arange(count) < counts[:, None])

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        places = np.broadcast_to(np.arange(count), (len(batch), count))
        return self._candidates(batch.queries, places, places < self.counts[batch.queries][:, None])

    def _candidates(
        self, queries: NDArray[np.integer], places: NDArray[np.integer], there: NDArray[np.bool_]
    ) -> CandidateBatch:
        rows, places = np.asarray(queries)[:, None], np.where(there, places, 0)
        documents = np.where(there, self.lists.documents[rows, places], -1)
        return CandidateBatch(documents, np.where(there, self.lists.scores[rows, places], -np.inf))


def candidates_at(lists: RankedLists, places: NDArray[np.integer]) -> CandidateBatch:
    """The documents at the first so many places [q, count] of each list as its length allows."""
    count = places.shape[1]
    there = (np.arange(count) < lists.counts[:, None]) & bool(lists.documents.shape[1])
    places = np.where(there, places, 0)
    documents = np.where(there, np.take_along_axis(lists.documents, places, 1), -1)
    return CandidateBatch(documents, np.where(there, np.take_along_axis(lists.scores, places, 1), -np.inf))


def draw_positions(counts: NDArray[np.integer], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` distinct places below each row's `counts`, uniformly, as far as there are so many.

    Floyd's algorithm (Bentley and Floyd 1987), for all rows at once: its cost depends on how many are
    drawn, not on how long the lists are. The set is uniform, its order is not: low places tend to come first.

    Returns:
        int64 [rows, count]; a row with fewer than `count` places names each once, then is arbitrary.
    """
    draws = rng.random((len(counts), count))
    places = np.full((len(counts), count), -1, np.int64)
    # The j-th draw is uniform over 0 … top; where it hits an earlier place, `top` itself is new.
    for drawn in range(count):
        top = np.maximum(counts - count, 0) + drawn
        place = (draws[:, drawn] * (top + 1)).astype(np.int64)
        hit = (places[:, :drawn] == place[:, None]).any(axis=1)
        places[:, drawn] = np.where(hit, top, place)
    return places


def skip_excluded(
    steps: NDArray[np.int64], before: NDArray[np.integer], offsets: NDArray[np.int64], queries: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Steps that leave out some of each query's: moved past as many of these as have no more others before them.

    Args:
        steps: int64 [q, n], counted without those left out.
        before: of each one left out, ascending within a query: how many others lie before it.
        offsets: int64, where each query's begin.
        queries: int [q].
    """
    starts = offsets[queries]
    left_out = offsets[np.asarray(queries) + 1] - starts
    moved = steps.copy()
    for nth in range(int(left_out.max(initial=0))):
        has = nth < left_out
        moved += has[:, None] & (steps >= before[np.where(has, starts + nth, 0)][:, None])
    return moved
