"""Computes the average precision of many runs while only part of the pool is judged, plain and inferred (infAP)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pooling.judging_order import JudgingOrder
from pooling.pool import Pool, numbered_on
from pooling.sentinels import NOT_RELEVANT, RELEVANT, UNJUDGED, UNPOOLED

EPSILON = 1e-5
"""Smooths infAP's share of relevant documents, as in trec_eval."""


class Values(NamedTuple):
    """The values of every topic and run, given the judgements so far: float64 [topics, runs]; 0 before anything
    relevant is known.

    Args:
        ap: average precision. Unjudged documents count as not relevant, and the sum is divided by the number of
            relevant documents known so far: trec_eval's value for qrels with these judgements and no others.
        inf_ap: inferred average precision (Yilmaz and Aslam 2006, "Estimating average precision with incomplete and
            imperfect judgments", section 3). At the rank k of a document judged relevant the expected precision is

                1/k + (k-1)/k · (pooled / (k-1)) · (relevant + ε) / (relevant + not relevant + 2ε)

            where all counts are of the ranks above k: the document itself, and then, among the pooled documents above
            it, the share that is relevant among the judged ones. Documents outside the pool are not relevant.

            That share is right on average if the judged documents are a uniform sample of the pool. Of all orders of
            judging only the random one takes such a sample; the others judge likely relevant documents first, and the
            share is too high. `pooling.ranking_quality` reports by how much; nothing is corrected here.
    """

    ap: NDArray[np.float64]
    inf_ap: NDArray[np.float64]


class SpentValues(NamedTuple):
    """The values after several numbers of judgements ("points").

    Args:
        values: float64 [points, topics, runs] each.
        found: int64 [points, topics], known relevant documents.
    """

    values: Values
    found: NDArray[np.int64]


class PoolEvaluation:
    """Evaluates the same runs repeatedly, while more and more of the pool is judged.

    Args:
        pool: the pool whose documents are judged, with its grades as the truth.
        rankings: for each topic int32 [runs, depth], other runs than the pool's, or the same further down: documents by
            their numbers in the pool, `NO_DOCUMENT` for all others. None takes the pool's runs to the pool's depth.

    Raises:
        ValueError: the rankings are not of the pool's topics.
    """

    def __init__(self, pool: Pool, rankings: Sequence[NDArray[np.int32]] | None = None) -> None:
        if rankings is not None and len(rankings) != len(pool.topics):
            raise ValueError(f"rankings of {len(rankings)} topics for a pool of {len(pool.topics)}")
        self.pool = pool
        self.offsets = pool.offsets
        self._relevant = pool.relevant.astype(np.int8)
        self._cells = pool.cells if rankings is None else numbered_on(rankings, self.offsets)

    def states(self, order: JudgingOrder, spent: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the judgement of each document once the first `spent[topic]` documents of each topic's order are
        judged.

        Returns:
            int8 [documents of all topics + 1]; topic t's begin at offsets[t]. The last is `UNPOOLED`.
        """
        states = np.full(self.offsets[-1] + 1, UNJUDGED, np.int8)
        states[-1] = UNPOOLED
        for documents, count, first in zip(order.documents, spent, self.offsets[:-1], strict=True):
            judged = documents[:count] + first
            states[judged] = self._relevant[judged]
        return states

    def found(self, states: NDArray[np.int8]) -> NDArray[np.int64]:
        """Count the known relevant documents: int64 [topics]."""
        counted = np.concatenate([[0], np.cumsum(states == RELEVANT)])
        return np.diff(counted[self.offsets])

    def __call__(self, states: NDArray[np.int8]) -> Values:
        """Compute AP and infAP of every topic and run from the judgements.

        Args:
            states: see `states`; a document may also be `UNPOOLED`.
        """
        ap, inferred = np.empty(self._cells.shape[:2]), np.empty(self._cells.shape[:2])
        _sums(self._cells, states, ap, inferred)
        known = np.maximum(self.found(states), 1)[:, None]
        return Values(ap / known, inferred / known)

    def spent(self, order: JudgingOrder, spent: NDArray[np.int64]) -> SpentValues:
        """Compute AP and infAP when the first documents of each topic's order are judged, for several points at once.

        The values are those of `states` for each point, to the last bit, at the cost of about one.

        Args:
            order: an order of the pool.
            spent: int64 [points, topics], judgements of each topic.
        """
        first, found = self._first_points(order, spent)
        shape = (len(spent), *self._cells.shape[:2])
        ap, inferred = np.zeros(shape), np.zeros(shape)
        _sums_at_points(self._cells, first, self._relevant, ap, inferred)
        by_size = np.argsort(spent, axis=0, kind="stable")  # the kernel has the points of a topic in this order
        places = np.empty_like(by_size)
        np.put_along_axis(places, by_size, np.arange(len(spent))[:, None], axis=0)
        ap, inferred = (np.take_along_axis(sums, places[:, :, None], axis=0) for sums in (ap, inferred))
        found = np.take_along_axis(found, places, axis=0)
        known = np.maximum(found, 1)[:, :, None]
        return SpentValues(Values(ap / known, inferred / known), found)

    def growing(self, order: JudgingOrder) -> GrowingPrecision:
        """Return MAP alone of every run, to be brought up to date while more and more is judged."""
        return GrowingPrecision(order, self.pool.relevant, len(self.pool.runs), *self._relevant_cells)

    @cached_property
    def _relevant_cells(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """The relevant documents of each run, run after run: where they begin, which they are, and at which places."""
        cells = self._cells.reshape(-1, self._cells.shape[2])
        row, place = np.nonzero(np.append(self._relevant, 0)[cells])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(cells)))])
        return offsets, cells[row, place], place.astype(np.int32)

    def _first_points(
        self, order: JudgingOrder, spent: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the first point, in each topic's ascending order, at which a document is judged: int32 [documents of
        all topics + 1]; and the relevant documents known at each of these points: int64 [points, topics].
        """
        first = np.full(self.offsets[-1] + 1, len(spent), np.int32)
        found = np.zeros(spent.shape, np.int64)
        _find_first_points(order.flat, self.offsets, np.sort(spent, axis=0), self._relevant, first, found)
        return first, found

    def full(self) -> NDArray[np.float64]:
        """Compute AP of every topic and run with all judgements: float64 [topics, runs].

        The sum is divided by all relevant documents that the judgements know of, in the pool or outside it, as
        trec_eval does for these runs with the official qrels. So it is the value to estimate and, unlike the number of
        relevant documents in the pool, it does not change with the pool's depth or its runs.
        """
        ap = np.empty(self._cells.shape[:2])
        _sums(self._cells, np.append(self._relevant, np.int8(UNPOOLED)), ap, np.empty_like(ap))
        return ap / np.array([max(topic.relevant, 1) for topic in self.pool.topics])[:, None]


class GrowingPrecision:
    """MAP of every run while more and more of an order is judged, as `PoolEvaluation.spent` has AP. It visits only
    relevant documents, and adds up again only the runs in which more of them are known.

    Args:
        order: an order of the pool.
        relevant: bool [documents of all topics].
        runs: the number of runs.
        offsets, documents, places: the relevant documents of each run (`PoolEvaluation._relevant_cells`).
    """

    def __init__(
        self,
        order: JudgingOrder,
        relevant: NDArray[np.bool_],
        runs: int,
        offsets: NDArray[np.int64],
        documents: NDArray[np.int32],
        places: NDArray[np.int32],
    ) -> None:
        topics = len(order.sizes)
        self._order, self._relevant = order, relevant
        turns = np.empty(len(relevant), np.int32)
        turns[order.flat] = order.places
        self._cells = offsets, turns[documents], places
        self._known = np.zeros(topics, np.int64)
        self._counts = np.zeros((topics, runs), np.int64)
        self._sums, self._ap = np.zeros((topics, runs)), np.zeros((topics, runs))

    def advance(self, spent: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute MAP at the next points: float64 [points, runs]; a topic has 0 before anything relevant is known.

        Args:
            spent: int64 [points, topics], judgements of each topic, no fewer than at the point before.
        """
        known = self._order.found_after(self._relevant, spent)
        means = np.zeros((len(spent), self._ap.shape[1]))
        _advance(*self._cells, spent, known, self._known, self._counts, self._sums, self._ap, means)
        return means


@njit(nogil=True, cache=True)
def _sums(cells, states, ap, inferred):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add up the precision, and the expected precision, at each relevant document of each topic and run."""
    for topic in range(cells.shape[0]):
        for run in range(cells.shape[1]):
            relevant, judged, pooled = 0, 0, 0
            precision, expected = 0.0, 0.0
            for place in range(cells.shape[2]):
                state = states[cells[topic, run, place]]
                if state == RELEVANT:
                    share = (relevant + EPSILON) / (judged + 2 * EPSILON)
                    expected += (1 + pooled * share) / (place + 1)
                    relevant += 1
                    precision += relevant / (place + 1)
                if state != UNPOOLED:
                    pooled += 1
                if state >= NOT_RELEVANT:
                    judged += 1
            ap[topic, run] = precision
            inferred[topic, run] = expected


@njit(nogil=True, cache=True)
def _sums_at_points(cells, first, is_relevant, ap, inferred):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add up the same as `_sums` for several points: a document is judged from its first point on."""
    points, outside = ap.shape[0], len(is_relevant)
    relevant = np.zeros(points, np.int64)
    judged = np.zeros(points + 1, np.int64)  # documents that are judged from this point on
    for topic in range(cells.shape[0]):
        for run in range(cells.shape[1]):
            relevant[:] = 0
            judged[:] = 0
            pooled = 0
            for place in range(cells.shape[2]):
                document = cells[topic, run, place]
                if document == outside:
                    continue
                if is_relevant[document] and first[document] < points:
                    known = 0
                    for point in range(first[document]):
                        known += judged[point]
                    for point in range(first[document], points):
                        known += judged[point]
                        share = (relevant[point] + EPSILON) / (known + 2 * EPSILON)
                        inferred[point, topic, run] += (1 + pooled * share) / (place + 1)
                        relevant[point] += 1
                        ap[point, topic, run] += relevant[point] / (place + 1)
                judged[first[document]] += 1
                pooled += 1


@njit(nogil=True, cache=True)
def _find_first_points(in_order, offsets, ascending, is_relevant, first, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    points = len(ascending)
    for topic in range(len(offsets) - 1):
        point, known = 0, 0
        for place in range(offsets[topic], offsets[topic + 1]):
            while point < points and ascending[point, topic] <= place - offsets[topic]:
                found[point, topic] = known
                point += 1
            document = in_order[place]
            first[document] = point
            known += is_relevant[document]
        for left in range(point, points):
            found[left, topic] = known


@njit(nogil=True, cache=True)
def _advance(offsets, turns, places, spent, known, before, counts, sums, ap, means):  # type: ignore[no-untyped-def]  # pragma: no cover
    topics, runs = ap.shape
    for point in range(len(spent)):
        for topic in range(topics):
            if known[point, topic] != before[topic]:
                before[topic] = known[point, topic]
                for run in range(runs):
                    row = topic * runs + run
                    first, last = offsets[row], offsets[row + 1]
                    above = 0
                    for cell in range(first, last):
                        above += turns[cell] < spent[point, topic]
                    if above != counts[topic, run]:
                        counts[topic, run] = above
                        above, total = 0, 0.0
                        for cell in range(first, last):
                            if turns[cell] < spent[point, topic]:
                                above += 1
                                total += above / (places[cell] + 1)
                        sums[topic, run] = total
                    ap[topic, run] = sums[topic, run] / known[point, topic]
            for run in range(runs):
                means[point, run] += ap[topic, run]
        for run in range(runs):
            means[point, run] /= topics
