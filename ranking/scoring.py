"""Scoring many candidates: the hot path of validation, rewards and indexes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.encoding import EncodedCollection
from ranking.rankers.ranker import Ranker
from ranking.texts import Texts

REPRESENTED = 1 << 18
"""Documents whose representations are held at once; with 512 floats each they fill 512 MiB."""


def represent(
    ranker: Ranker, texts: Texts, rows: NDArray[np.integer], queries: bool = False, chunk: int = 512
) -> Tensor:
    """Represent the texts at `rows`, `chunk` at a time. Shape [rows, …]."""
    read = ranker.represent_queries if queries else ranker.represent_documents
    parts = [read(texts.take(rows[start : start + chunk])) for start in range(0, len(rows), chunk)]
    return torch.cat(parts)


@torch.no_grad()
def score_candidates(
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: NDArray[np.integer],
    documents: NDArray[np.integer],
    pairs: int | None = None,
    represented: int = REPRESENTED,
) -> NDArray[np.float32]:
    """Scores of each query's candidates.

    Each distinct document is represented once; what depends on the pair alone is left for the pairs.

    Args:
        ranker: scores them.
        encoded: the collection that both index.
        queries: int [q].
        documents: int [q, m]; −1 is no document.
        pairs: how many interact at once; as many as suit the ranker when None.
        represented: how many documents are represented at once. With `pairs` it bounds the memory.

    Returns:
        float32 [q, m], −inf where the document is −1.
    """
    scores = np.full(documents.shape, -np.inf, np.float32)
    if not documents.size:
        return scores
    step = max(1, represented // documents.shape[1])
    for start in range(0, len(queries), step):
        block = documents[start : start + step]
        wanted = np.zeros(len(encoded.documents) + 1, bool)  # the last one stands for −1
        wanted[block] = True
        distinct = np.flatnonzero(wanted[:-1])
        if not len(distinct):
            continue
        place = np.cumsum(wanted) - 1
        place[-1] = 0
        of_documents = represent(ranker, encoded.documents, distinct)
        of_queries = represent(ranker, encoded.queries, queries[start : start + step], queries=True)
        index = torch.from_numpy(place[block]).to(ranker.device)
        rows = max(1, (pairs or ranker.pairs) // documents.shape[1])
        for row in range(0, len(block), rows):
            part = index[row : row + rows]
            taken = of_documents.index_select(0, part.flatten()).view(*part.shape, *of_documents.shape[1:])
            present = torch.from_numpy(block[row : row + rows] >= 0).to(ranker.device)
            scored = ranker.interact_lists(of_queries[row : row + rows, None], taken, present)
            scores[start + row : start + row + len(part)] = scored.float().cpu().numpy()
    scores[documents < 0] = -np.inf
    return scores


@torch.no_grad()
def search(
    ranker: Ranker, encoded: EncodedCollection, queries: NDArray[np.integer], depth: int, chunk: int = 1 << 15
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The best `depth` of all documents for each query, in bounded memory.

    Ties are broken as trec_eval does (a later id first), so that the result does not depend on `chunk`.

    Returns:
        int32 documents and float32 scores, [q, depth] each, best first; −1 and −inf behind a short list.
    """
    best_documents = np.full((len(queries), depth), -1, np.int32)
    best_scores = np.full((len(queries), depth), -np.inf, np.float32)
    if not len(queries):
        return best_documents, best_scores
    of_queries = represent(ranker, encoded.queries, queries, queries=True)[:, None]
    for start in range(0, len(encoded.documents), chunk):
        part = np.arange(start, min(start + chunk, len(encoded.documents)), dtype=np.int32)
        of_documents = represent(ranker, encoded.documents, part)[None]
        for row in range(len(queries)):
            scored = [ranker.interact(of_queries[[row]], some) for some in of_documents.split(ranker.pairs, dim=1)]
            scores = np.concatenate([best_scores[row], torch.cat(scored, 1)[0].float().cpu().numpy()])
            documents = np.concatenate([best_documents[row], part])
            # By the last key first: what is no document comes last, then by score, then by id.
            order = np.lexsort((-encoded.document_key[documents], -scores, documents < 0))[:depth]
            best_documents[row], best_scores[row] = documents[order], scores[order]
    return best_documents, best_scores
