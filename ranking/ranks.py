"""Computes ranks among all documents, or those of a category, exactly and in bounded memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.alike import digests, tie_repeats
from ranking.encoding import EncodedCollection
from ranking.rankers.dense import DenseRanker
from ranking.rankers.ranker import Ranker
from ranking.scoring import represent

DOCUMENTS = 1 << 15
"""Documents whose representations are held at once."""
SCORES = 1 << 22
"""Scores that are held at once."""


@torch.no_grad()
def ranks_in(
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: NDArray[np.integer],
    wanted: NDArray[np.integer],
    within: NDArray[np.integer],
    documents: int = DOCUMENTS,
) -> NDArray[np.int64]:
    """The ranks that documents have among those of `within`, by the ranker's scores; ties as trec_eval breaks them.

    A document's rank is one up from how many score higher, or the same with a later id. So no list is ever sorted, and
    scores of queries × documents are looked at a block at a time.

    Args:
        ranker: scores them.
        encoded: the collection that all index.
        queries: int [q].
        wanted: int [q, r], the documents to rank; −1 for none.
        within: int [n], ascending, the documents that they are ranked among.
        documents: how many are represented at once. With `SCORES` it bounds the memory.

    Returns:
        int64 [q, r] from 1; 0 where the document is −1 or not among `within`.

    Raises:
        FloatingPointError: where the ranker scores a document nan.
    """
    ranks = np.zeros(wanted.shape, np.int64)
    there = (wanted >= 0) & np.isin(wanted, within)
    if not there.any():
        return ranks
    of_queries = represent(ranker, encoded.queries, queries, queries=True)
    asked = np.where(there, wanted, within[0])
    content = digests(encoded.documents, asked.ravel(), ranker.document_reach).reshape(asked.shape)
    own = _own_scores(ranker, encoded, of_queries, asked)
    numbers = np.unique(content, return_inverse=True)[1].reshape(asked.shape)
    tie_repeats(own, numbers, np.ones(asked.shape, bool))  # so that documents alike are compared by one score
    keys = encoded.document_key
    ranks[there] = 1
    for start in range(0, len(within), documents):
        part = within[start : start + documents]
        of_documents = represent(ranker, encoded.documents, part)
        contents = digests(encoded.documents, part, ranker.document_reach)
        step = max(1, SCORES // len(part))
        for row in range(0, len(queries), step):
            rows = slice(row, row + step)
            scores = _scores(ranker, of_queries[rows], of_documents)
            if np.isnan(scores).any():
                raise FloatingPointError("the ranker scores a document nan")
            for column in range(wanted.shape[1]):
                mark, document = own[rows, column, None], wanted[rows, column, None]
                later = keys[part] > keys[document]
                ahead = (scores > mark) | ((scores == mark) & later)
                # Its own score, computed in another block, may differ in the last bit, as may that of a document alike.
                ahead = np.where(contents == content[rows, column, None], later, ahead)
                ranks[rows, column] += ahead.sum(1) * there[rows, column]
    return ranks


def _scores(ranker: Ranker, queries: Tensor, documents: Tensor) -> NDArray[np.float32]:
    """Scores of every query with every document [q, n]."""
    if isinstance(ranker, DenseRanker):
        # In float64, so that equal documents have equal scores wherever they stand in a block.
        return (queries.double() @ documents.double().T).float().cpu().numpy()
    rows = []
    for query in queries:
        parts = [ranker.interact(query[None, None], some[None]) for some in documents.split(ranker.pairs)]
        rows.append(torch.cat(parts, 1)[0].float().cpu().numpy())
    return np.stack(rows)


def _own_scores(
    ranker: Ranker, encoded: EncodedCollection, queries: Tensor, wanted: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Scores of each query's documents [q, r]."""
    distinct, places = np.unique(wanted, return_inverse=True)
    of_documents = represent(ranker, encoded.documents, distinct)
    scores = np.empty(wanted.shape, np.float32)
    for row, of_query in enumerate(places.reshape(wanted.shape)):
        scores[row] = _scores(ranker, queries[[row]], of_documents[torch.from_numpy(of_query)])[0]
    return scores
