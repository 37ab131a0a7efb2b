"""Tells how hard each function's candidates look: statistics of their scores, once for each query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.vectors import directions
from sampling.guard import best_positive
from sampling.retrieval.function import RetrievalFunction

STATISTICS = ("mean", "deviation", "maximum", "gap")
SAMPLED = 256
"""Documents that stand for the collection where a function ranks by itself."""


def similarity_table(function: RetrievalFunction, lists: RankedLists | None, sources: Sources) -> NDArray[np.float32]:
    """Mean, deviation and maximum of the candidates' scores, and the gap from the positive's score to the maximum.

    The similarity statistics of figure 1 in Cohen et al. 2019. They depend on the query alone, so that a step of
    the environment only looks them up. Divided by the largest value of the table, they lie in −1 … 1. A function
    without scores (random sampling) is measured by the cosine of idf-weighted text vectors between the query and
    a fixed sample of the collection. What is not known (no list, no score of a positive) is 0.

    Args:
        function: an action of the agent.
        lists: its lists as runs take them, None where it ranks by itself.
        sources: what it ranks with.

    Returns:
        float32 [queries, 4].
    """
    scores, positives = _cosines(sources) if lists is None else _scores(function, lists, sources)
    there = np.isfinite(scores)
    counts = np.maximum(there.sum(axis=1), 1)
    kept = np.where(there, scores, 0).astype(np.float64)
    mean = kept.sum(axis=1) / counts
    deviation = np.sqrt((np.where(there, kept - mean[:, None], 0) ** 2).sum(axis=1) / counts)
    highest = np.where(there.any(axis=1), np.where(there, kept, -np.inf).max(axis=1, initial=-np.inf), 0)
    gap = np.where(np.isfinite(positives) & there.any(axis=1), positives - highest, 0)
    table = np.stack([mean, deviation, highest, gap], axis=1)
    return (table / max(float(np.abs(table).max(initial=0)), 1e-12)).astype(np.float32)


def _scores(
    function: RetrievalFunction, lists: RankedLists, sources: Sources
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    positives = best_positive(function, sources)
    known = np.full(len(lists), np.nan) if positives is None else positives
    return np.where(lists.documents >= 0, lists.scores, np.nan), known


def _cosines(sources: Sources) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    encoded, size = sources.encoded, len(sources.encoded.documents)
    sample = np.random.default_rng(0).choice(size, min(SAMPLED, size), replace=False)
    queries = directions(encoded.queries, sources.vectors.table, encoded.idf)
    scores = queries @ directions(encoded.documents.take(sample), sources.vectors.table, encoded.idf).T
    relevant = encoded.judgements.relevant()
    rows = relevant.rows()
    of_relevant = directions(encoded.documents.take(relevant.documents), sources.vectors.table, encoded.idf)
    positives = np.full(len(queries), -np.inf)
    np.maximum.at(positives, rows, np.einsum("pd,pd->p", queries[rows], of_relevant))
    return scores, positives
