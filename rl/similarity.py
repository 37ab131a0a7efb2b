"""Measures how hard each function's candidates look: statistics of their scores, once per query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.vectors import directions
from pyrite.sampling.guard import Guard, positive_scores
from pyrite.sampling.retrieval.function import RetrievalFunction

STATISTICS = ("mean", "deviation", "maximum", "gap")
SAMPLED = 256
"""Size of the sample of the collection for functions without scores."""


def similarity_table(function: RetrievalFunction, lists: RankedLists | None, sources: Sources) -> NDArray[np.float32]:
    """Return mean, deviation and maximum of the candidates' scores, and the gap from the positive's score to the
    maximum: float32 [queries, 4].

    The similarity statistics of figure 1 in Cohen et al. 2019. They depend on the query only, so a step of the
    environment looks them up. They are divided by the largest value of the table, and lie in −1 … 1. A function without
    scores (random sampling) is measured by the cosine of idf-weighted text vectors between the query and a fixed sample
    of the collection. Unknown values (no list, no score of a positive) are 0.

    Args:
        lists: its lists as runs use them; None if it ranks during the training.
    """
    scores, positives = _cosines(sources) if lists is None else _scores(function, lists, sources)
    present = np.isfinite(scores)
    counts = np.maximum(present.sum(axis=1), 1)
    kept = np.where(present, scores, 0).astype(np.float64)
    mean = kept.sum(axis=1) / counts
    deviation = np.sqrt((np.where(present, kept - mean[:, None], 0) ** 2).sum(axis=1) / counts)
    highest = np.where(present.any(axis=1), np.where(present, kept, -np.inf).max(axis=1, initial=-np.inf), 0)
    gap = np.where(np.isfinite(positives) & present.any(axis=1), positives - highest, 0)
    table = np.stack([mean, deviation, highest, gap], axis=1)
    return (table / max(float(np.abs(table).max(initial=0)), 1e-12)).astype(np.float32)


def _scores(
    function: RetrievalFunction, lists: RankedLists, sources: Sources
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    positives = positive_scores(function, sources, Guard(positive="best"))
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
