"""Ranks candidates or whole collections by a ranker, in the order in which trec_eval reads a run."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.evaluation.measures import ranking_keys
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import DOCUMENTS, SCORES, products, represent, score_candidates


def rank_candidates(
    ranker: Ranker, encoded: EncodedCollection, queries: NDArray[np.integer], documents: NDArray[np.integer], depth: int
) -> RankedLists:
    """Return each query's candidates [q, m] in the ranker's order; −1 is no document.

    Raises:
        FloatingPointError: if the ranker scores a document nan.
    """
    scores = score_candidates(ranker, encoded, queries, documents)
    return best_of(scores, documents.astype(np.int32), encoded.document_key, depth)


@torch.no_grad()
def rank_all(
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: NDArray[np.integer],
    depth: int,
    within: NDArray[np.integer] | None = None,
) -> RankedLists:
    """Return the first documents of each query among all, or those in `within`, exactly and in bounded memory.

    Raises:
        FloatingPointError: if the ranker scores a document nan.
    """
    within = np.arange(len(encoded.documents)) if within is None else within
    lists = RankedLists.empty(len(queries), depth)
    of_queries = represent(ranker, encoded.queries, queries, queries=True)
    block = min(DOCUMENTS, ranker.held)
    scale = ranker.scale if isinstance(ranker, DenseRanker) else 1.0
    for start in range(0, len(within), block):  # each document is read once, for all queries
        part = within[start : start + block]
        of_documents = represent(ranker, encoded.documents, part)
        step = max(1, SCORES // len(part))
        for row in range(0, len(queries), step):
            rows = slice(row, row + step)
            scores = products(ranker, of_queries[rows], of_documents, scale).cpu().numpy()
            # Keep the best of the best so far and those of this block.
            documents = np.broadcast_to(part.astype(np.int32), scores.shape)
            together = np.concatenate([lists.scores[rows], scores], axis=1)
            both = np.concatenate([lists.documents[rows], documents], axis=1)
            best = best_of(together, both, encoded.document_key, depth)
            lists.documents[rows], lists.scores[rows] = best.documents, best.scores
    return lists


def best_of(
    scores: NDArray[np.float32], documents: NDArray[np.int32], keys: NDArray[np.int32], depth: int
) -> RankedLists:
    """Return the first `depth` of each row, by score descending, then by id descending."""
    present = documents >= 0
    if np.isnan(scores[present]).any():
        raise FloatingPointError("the ranker scores a document nan")
    order = ~np.where(present, ranking_keys(scores, keys[np.maximum(documents, 0)]), 0)
    if depth < order.shape[1]:
        first = np.argpartition(order, depth - 1, axis=1)[:, :depth]
        documents, scores = np.take_along_axis(documents, first, 1), np.take_along_axis(scores, first, 1)
        order = np.take_along_axis(order, first, 1)
    ranked = np.argsort(order, axis=1)
    documents, scores = np.take_along_axis(documents, ranked, 1), np.take_along_axis(scores, ranked, 1)
    return RankedLists(documents, np.where(documents >= 0, scores, -np.inf).astype(np.float32))
