"""Scores many candidates: the hot path of validation, rewards and indexes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.alike import digests, group_alike, tie_repeats
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.ranker import Ranker, joined
from pyrite.ranking.reading_progress import reading
from pyrite.ranking.sparse_products import sparse_products
from pyrite.ranking.texts import Texts

DOCUMENTS = 1 << 15
"""Documents whose representations are held at once."""
READ = 512
"""Texts that are read at once."""
SCORES = 1 << 22
"""Scores that are held at once."""


def represent(ranker: Ranker, texts: Texts, rows: NDArray[np.integer], queries: bool = False) -> Tensor:
    """Represent the texts at `rows`, `READ` at a time. Shape [rows, …]."""
    read = ranker.represent_queries if queries else ranker.represent_documents
    with reading(len(rows)):
        parts = [read(texts.take(rows[start : start + READ])) for start in range(0, len(rows), READ)]
    return joined(parts)


@torch.no_grad()
def score_candidates(
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: NDArray[np.integer],
    documents: NDArray[np.integer],
) -> NDArray[np.float32]:
    """Return scores [q, m] of each query's candidates, −inf if the document is −1.

    Each distinct text is represented once; only what depends on the pair is computed per pair. The ranker's `pairs`
    and `held` bound the memory. Documents that the ranker can't distinguish have equal scores in a query's list, so
    that their order never depends on the last bits, which vary with the processor and a pair's place in its block.
    """
    scores = np.full(documents.shape, -np.inf, np.float32)
    if not documents.size:
        return scores
    step = max(1, ranker.held // documents.shape[1])
    with reading(0 if ranker.reads_apart else int((documents >= 0).sum())):
        _score_blocks(ranker, encoded, queries, documents, scores, step)
    scores[documents < 0] = -np.inf
    return scores


def _score_blocks(
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: NDArray[np.integer],
    documents: NDArray[np.integer],
    scores: NDArray[np.float32],
    step: int,
) -> None:
    """Write the scores of candidates, `step` queries at a time."""
    for start in range(0, len(queries), step):
        block = documents[start : start + step]
        wanted = np.zeros(len(encoded.documents) + 1, bool)  # the last one is for −1
        wanted[block] = True
        distinct = np.flatnonzero(wanted[:-1])
        if not len(distinct):
            continue
        numbers = np.zeros(len(wanted), np.int64)
        first, alike, repeated = group_alike(digests(encoded.documents, distinct, ranker.document_reach))
        numbers[distinct] = alike
        distinct = distinct[first]
        of_documents = represent(ranker, encoded.documents, distinct)
        of_queries = represent(ranker, encoded.queries, queries[start : start + step], queries=True)
        index = torch.from_numpy(numbers[block]).to(ranker.device)
        rows = max(1, ranker.pairs // documents.shape[1])
        for row in range(0, len(block), rows):
            part = index[row : row + rows]
            taken = of_documents.index_select(0, part.flatten()).view(*part.shape, *of_documents.shape[1:])
            scored = ranker.interact(of_queries[row : row + rows, None], taken)
            scores[start + row : start + row + len(part)] = scored.float().cpu().numpy()
        places = numbers[block]
        tie_repeats(scores[start : start + step], places, repeated[places] & (block >= 0))


def products(ranker: Ranker, queries: Tensor, documents: Tensor, scale: float = 1.0) -> Tensor:
    """Return scores of every query with every document [q, n], float32, from their representations [q, …] and [n, …].

    `scale` is the factor of inner products, for a ranker with one vector per text.
    """
    if isinstance(ranker, DenseRanker) and ranker.sparse:
        return torch.from_numpy(scale * sparse_products(queries, documents)).to(queries.device)
    if isinstance(ranker, DenseRanker):
        # In float64, so that equal documents have equal scores at any place of a block.
        return (scale * (queries.double() @ documents.double().T)).float()
    rows = []
    for query in queries:
        parts = [ranker.interact(query[None, None], some[None]) for some in documents.split(ranker.pairs)]
        rows.append(torch.cat(parts, 1)[0].float())
    return torch.stack(rows)
