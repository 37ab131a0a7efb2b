"""Interpolates a ranker's scores with the first stage's, by a weight that is chosen on dev queries.

A re-ranker usually ignores the first stage's scores. The sum of both scores often ranks better than either. Both are
scaled to [0, 1] by query first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.rankers.ranker import Ranker

WEIGHTS = tuple(step / 10 for step in range(11))
"""Weights of the ranker to try: 0 is the first stage alone, 1 the ranker alone."""


def best_weight(evaluation: Evaluation, ranker: Ranker) -> float | None:
    """Return the one of `WEIGHTS` with the highest mean of the first measure on dev queries; the lowest of equal ones.

    None if the candidates are not a list, or there are none.
    """
    scores = evaluation.scores(ranker)
    if scores is None or not len(scores):
        return None

    def mean(weight: float) -> float:
        values = evaluation.of_scores(interpolate(evaluation, scores, weight))
        # Means that differ in their last bits, as on another processor, are equal.
        return round(float(next(iter(values.values())).mean()), 9)

    return max(WEIGHTS, key=mean)


def interpolate(evaluation: Evaluation, scores: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """Return the ranker's scores times `weight` plus the first stage's times the rest, each scaled to [0, 1] by query.

    Args:
        evaluation: an evaluation of queries whose candidates are lists.
        scores: the ranker's scores [q, depth], in the order of the candidates.
    """
    documents = evaluation.candidates.documents
    assert documents is not None
    first_stage, present = _first_stage(documents, evaluation.candidates.first_stage), documents >= 0
    both = weight * _scaled(scores, present) + (1 - weight) * _scaled(first_stage, present)
    return np.round(both, 6).astype(np.float32)  # no order by the last bits of a sum


def _first_stage(documents: NDArray[np.int32], lists: RankedLists) -> NDArray[np.float32]:
    """Return the first stage's scores in the order of the candidates; unranked ones are below all others."""
    if np.array_equal(lists.documents, documents):
        return lists.scores
    scores = np.empty(documents.shape, np.float32)
    for row, (candidates, ranked, values) in enumerate(zip(documents, lists.documents, lists.scores, strict=True)):
        known = dict(zip(ranked.tolist(), values.tolist(), strict=True))
        least = min((value for document, value in known.items() if document >= 0), default=0.0)
        scores[row] = [known.get(document, least) for document in candidates.tolist()]
    return scores


def _scaled(scores: NDArray[np.float32], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Scale scores from 0, a query's lowest, to 1, its highest; 0 if all are equal, and for no document."""
    wide = scores.astype(np.float64)
    low = np.where(present, wide, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(present, wide, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    spread = high - low
    usable = present & (spread > 0)
    return np.divide(wide - low, spread, out=np.zeros(scores.shape), where=usable)
