"""Computes the average precision of many runs while only part of the pool is judged, plain and inferred (infAP)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pooling.judging_order import JudgingOrder
from pooling.pool import Pool
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
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.offsets = pool.offsets
        self._relevant = pool.relevant.astype(np.int8)

    def states(self, order: JudgingOrder, spent: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the judgement of each document once the first `spent[topic]` documents of each topic's order are
        judged: int8 [documents of all topics + 1]; topic t's begin at offsets[t]. The last is `UNPOOLED`.
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
        ap, inferred = self._sums_of(states)
        known = np.maximum(self.found(states), 1)[:, None]
        return Values(ap / known, inferred / known)

    def spent(self, order: JudgingOrder, spent: NDArray[np.int64]) -> SpentValues:
        """Compute AP and infAP when the first documents of each topic's order are judged, for several points at once.

        The values are those of `states` for each point, to the last bit, at the cost of about one.

        Args:
            spent: int64 [points, topics], judgements of each topic.
        """
        by_size = np.argsort(spent, axis=0, kind="stable")
        ascending = np.take_along_axis(spent, by_size, axis=0)
        # The first point, in each topic's ascending order, at which a document is judged; the last entry is for
        # documents outside the pool.
        first = np.full(self.offsets[-1] + 1, len(spent), np.int32)
        first[order.flat] = (order.places >= np.repeat(ascending, order.sizes, axis=1)).sum(0)
        ap, inferred = _sums(self.pool.cells, first, self._relevant, len(spent))
        as_given = np.argsort(by_size, axis=0)[:, :, None]
        ap, inferred = (np.take_along_axis(sums, as_given, axis=0) for sums in (ap, inferred))
        found = order.found_after(self.pool.relevant, spent)
        known = np.maximum(found, 1)[:, :, None]
        return SpentValues(Values(ap / known, inferred / known), found)

    def full(self) -> NDArray[np.float64]:
        """Compute AP of every topic and run with all judgements: float64 [topics, runs].

        The sum is divided by all relevant documents that the judgements know of, in the pool or outside it, as
        trec_eval does for these runs with the official qrels. So it is the value to estimate and, unlike the number of
        relevant documents in the pool, it does not change with the pool's depth or its runs.
        """
        ap, _ = self._sums_of(np.append(self._relevant, np.int8(UNPOOLED)))
        return ap / np.array([max(topic.relevant, 1) for topic in self.pool.topics])[:, None]

    def _sums_of(self, states: NDArray[np.int8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        outside = len(states) - 1
        cells = np.where(states[self.pool.cells] == UNPOOLED, outside, self.pool.cells)
        first = np.where(states >= NOT_RELEVANT, 0, 1).astype(np.int32)
        ap, inferred = _sums(cells, first, (states[:-1] == RELEVANT).astype(np.int8), 1)
        return ap[0], inferred[0]


@njit(nogil=True, cache=True)
def _sums(cells, first, is_relevant, points):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add up the precision, and the expected precision, at each relevant document: float64 [points, topics, runs] each.

    A document is judged from its first point on, at none if that is the number of points.
    """
    outside, shape = len(is_relevant), (points, cells.shape[0], cells.shape[1])
    ap, inferred = np.zeros(shape), np.zeros(shape)
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
    return ap, inferred
