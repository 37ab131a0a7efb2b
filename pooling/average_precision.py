"""Computes the average precision of many runs while only part of the pool is judged, plain and inferred (infAP)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pooling.judging_order import JudgingOrder
from pooling.pool import Pool
from pooling.sentinels import NO_DOCUMENT, NOT_RELEVANT, RELEVANT, UNJUDGED, UNPOOLED

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
        if rankings is None:
            rankings = [topic.pool.ranking for topic in pool.topics]
        if len(rankings) != len(pool.topics):
            raise ValueError(f"rankings of {len(rankings)} topics for a pool of {len(pool.topics)}")
        self.pool = pool
        self.offsets = np.cumsum([0, *(topic.pool.size for topic in pool.topics)])
        self._relevant = np.concatenate([pool.is_relevant(topic) for topic in pool.topics]).astype(np.int8)
        # The last entry represents all documents outside the pool: those with NO_DOCUMENT in a run.
        outside = self.offsets[-1]
        self._cells = np.stack(
            [
                np.where(ranked == NO_DOCUMENT, outside, ranked + first)
                for ranked, first in zip(rankings, self.offsets[:-1], strict=True)
            ]
        ).astype(np.int32)

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

    def full(self) -> NDArray[np.float64]:
        """Compute AP of every topic and run with all judgements: float64 [topics, runs].

        The sum is divided by all relevant documents that the judgements know of, in the pool or outside it, as
        trec_eval does for these runs with the official qrels. So it is the value to estimate and, unlike the number of
        relevant documents in the pool, it does not change with the pool's depth or its runs.
        """
        ap = np.empty(self._cells.shape[:2])
        _sums(self._cells, np.append(self._relevant, np.int8(UNPOOLED)), ap, np.empty_like(ap))
        return ap / np.array([max(topic.relevant, 1) for topic in self.pool.topics])[:, None]


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
