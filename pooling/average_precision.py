"""Computes the average precision of many runs while only part of the pool is judged, plain and inferred (infAP)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool

EPSILON = 1e-5
"""Smooths infAP's share of relevant documents, as in trec_eval."""


class Values(NamedTuple):
    """The values after several numbers of judgements ("points"): float64 [points, topics, runs]; 0 before anything
    relevant is known.

    Args:
        ap: average precision. Unjudged documents count as not relevant, and the sum is divided by the number of
            relevant documents known so far: trec_eval's value for qrels with these judgements and no others.
        inf_ap: inferred average precision (Yilmaz and Aslam 2006, "Estimating average precision with incomplete and
            imperfect judgments", section 3). At the rank k of a document judged relevant the expected precision is

                1/k + (k-1)/k · (pooled / (k-1)) · (relevant + ε) / (relevant + not relevant + 2ε)

            where all counts are of the ranks above k: the document itself, and then, among the pooled documents above
            it, the share that is relevant among the judged ones.

            That share is right on average if the judged documents are a uniform sample of the pool. Of all orders of
            judging only the random one takes such a sample; the others judge likely relevant documents first, and the
            share is too high. `pyrite.pooling.ranking_quality` reports by how much; nothing is corrected here.
        found: int64 [points, topics], known relevant documents.
    """

    ap: NDArray[np.float64]
    inf_ap: NDArray[np.float64]
    found: NDArray[np.int64]


class PoolEvaluation:
    """Evaluates the same runs repeatedly, while more and more of the pool is judged, with its grades as the truth."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._relevant = pool.relevant.astype(np.int8)

    def spent(self, order: JudgingOrder, spent: NDArray[np.int64]) -> Values:
        """Compute AP and infAP when the first `spent` (int64 [points, topics]) documents of each topic's order are
        judged. Several points cost about as much as one.
        """
        by_size = np.argsort(spent, axis=0, kind="stable")
        ascending = np.take_along_axis(spent, by_size, axis=0)
        # The first point, in each topic's ascending order, at which a document is judged.
        first = np.full(self.pool.size, len(spent), np.int32)
        first[order.flat] = (order.places >= np.repeat(ascending, order.sizes, axis=1)).sum(0)
        ap, inferred = _sums(self.pool.cells, first, self._relevant, len(spent))
        as_given = np.argsort(by_size, axis=0)[:, :, None]
        ap, inferred = (np.take_along_axis(sums, as_given, axis=0) for sums in (ap, inferred))
        found = order.found_after(self.pool.relevant, spent)
        known = np.maximum(found, 1)[:, :, None]
        return Values(ap / known, inferred / known, found)

    def full(self) -> NDArray[np.float64]:
        """Compute AP of every topic and run with all judgements: float64 [topics, runs].

        The sum is divided by all relevant documents that the judgements know of, in the pool or outside it, as
        trec_eval does for these runs with the official qrels. So it is the value to estimate and, unlike the number of
        relevant documents in the pool, it does not change with the pool's depth or its runs.
        """
        (ap,), _ = _sums(self.pool.cells, np.zeros(self.pool.size, np.int32), self._relevant, 1)
        return ap / np.array([max(topic.relevant, 1) for topic in self.pool.topics])[:, None]


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
            for place in range(cells.shape[2]):
                document = cells[topic, run, place]
                if document == outside:  # the run has ended
                    break
                if is_relevant[document] and first[document] < points:
                    known = 0
                    for point in range(first[document]):
                        known += judged[point]
                    for point in range(first[document], points):
                        known += judged[point]
                        share = (relevant[point] + EPSILON) / (known + 2 * EPSILON)
                        inferred[point, topic, run] += (1 + place * share) / (place + 1)
                        relevant[point] += 1
                        ap[point, topic, run] += relevant[point] / (place + 1)
                judged[first[document]] += 1
    return ap, inferred
