"""Computes ranks among all documents, or those of a category, exactly and in bounded memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.alike import digests, tie_repeats
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.kept_vectors import kept_documents, weights_key
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import DOCUMENTS, SCORES, products, represent


@torch.no_grad()
def ranks_in(
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: NDArray[np.integer],
    wanted: NDArray[np.integer],
    within: NDArray[np.integer],
    documents: int = DOCUMENTS,
) -> NDArray[np.int64]:
    """Return the ranks [q, r] of documents among those of `within`, by the ranker's scores; ties as in trec_eval.

    A document's rank is one plus the number of documents that score higher, or the same with a later id; 0 if it is −1
    or not in `within`. So no list is sorted, and scores of queries × documents are processed block by block.

    Args:
        wanted: int [q, r], the documents to rank; −1 for none.
        within: int [n], ascending, the documents among which they are ranked.
        documents: the number of documents represented at once. With `SCORES` it bounds the memory.

    Raises:
        FloatingPointError: if the ranker scores a document nan.
    """
    ranks = np.zeros(wanted.shape, np.int64)
    valid = (wanted >= 0) & np.isin(wanted, within)
    if not valid.any():
        return ranks
    of_queries = represent(ranker, encoded.queries, queries, queries=True)
    ranked = np.where(valid, wanted, within[0])
    content = digests(encoded.documents, ranked.ravel(), ranker.document_reach).reshape(ranked.shape)
    wanted_scores = _wanted_scores(ranker, encoded, of_queries, ranked)
    numbers = np.unique(content, return_inverse=True)[1].reshape(ranked.shape)
    tie_repeats(wanted_scores, numbers, np.ones(ranked.shape, bool))  # so documents alike have one score
    # Everything that is compared stays on the ranker's device, and only the ranks are copied back.
    device, keys = ranker.device, encoded.document_key
    marks, own_keys, own_contents = (
        torch.from_numpy(array).to(device) for array in (wanted_scores, keys[ranked], content.view(np.int64))
    )
    ahead_of = torch.zeros(wanted.shape, dtype=torch.int64, device=device)
    broken = torch.zeros((), dtype=torch.bool, device=device)
    documents, weights = min(documents, ranker.held), weights_key(ranker)
    for start in range(0, len(within), documents):
        part = within[start : start + documents]
        contents = digests(encoded.documents, part, ranker.document_reach)
        read = partial(represent, ranker, encoded.documents, part)
        of_documents = kept_documents(ranker, weights, contents, read)
        part_keys, part_contents = (
            torch.from_numpy(array).to(device) for array in (keys[part], contents.view(np.int64))
        )
        step = max(1, SCORES // len(part))
        for row in range(0, len(queries), step):
            rows = slice(row, row + step)
            scores = products(ranker, of_queries[rows], of_documents)
            broken |= scores.isnan().any()
            for column in range(wanted.shape[1]):
                mark = marks[rows, column, None]
                later = part_keys > own_keys[rows, column, None]
                ahead = (scores > mark) | ((scores == mark) & later)
                # Its score in another block may differ in the last bit, as may that of a document alike.
                ahead = torch.where(part_contents == own_contents[rows, column, None], later, ahead)
                ahead_of[rows, column] += ahead.sum(1)
    counts = torch.cat([ahead_of.flatten(), broken[None].long()]).cpu().numpy()
    if counts[-1]:
        raise FloatingPointError("the ranker scores a document nan")
    ranks[valid] = 1 + counts[:-1].reshape(wanted.shape)[valid]
    return ranks


def _wanted_scores(
    ranker: Ranker, encoded: EncodedCollection, queries: Tensor, wanted: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Return scores of each query's documents [q, r]."""
    distinct, places = np.unique(wanted, return_inverse=True)
    of_documents = represent(ranker, encoded.documents, distinct)
    rows = torch.from_numpy(places.reshape(wanted.shape)).to(queries.device)
    scores = [products(ranker, queries[[row]], of_documents[of_query])[0] for row, of_query in enumerate(rows)]
    return torch.stack(scores).cpu().numpy()
