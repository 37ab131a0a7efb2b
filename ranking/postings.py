"""Searches an inverted index: the best documents of each query by the sum of their terms' weights."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.cores import cores
from pyrite.ranking.postings_kernels import Workspace, search

Searched = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]
"""Documents and scores [queries, depth], best first, and scores of pairs [queries, m]."""


class Postings(NamedTuple):
    """An inverted index: the documents that have a term, and the weight of each.

    Args:
        offsets: int64, one longer than the number of terms; a term's postings are
            `documents[offsets[t]:offsets[t+1]]`.
        documents: int32, ascending within a term.
        weights: float32, above 0.
        bounds: float32, the largest weight of each term (`largest_weights`).
        size: the number of documents.
    """

    offsets: NDArray[np.int64]
    documents: NDArray[np.int32]
    weights: NDArray[np.float32]
    bounds: NDArray[np.float32]
    size: int


def largest_weights(offsets: NDArray[np.int64], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the largest weight of each term, 0 for a term that no document has."""
    largest, held = np.zeros(len(offsets) - 1, np.float32), np.diff(offsets) > 0
    if held.any():
        largest[held] = np.maximum.reduceat(weights, offsets[:-1][held])
    return largest


def search_postings(
    postings: Postings,
    terms: Sequence[NDArray[np.integer]],
    depth: int,
    pairs: NDArray[np.int32],
    threads: int | None,
) -> Searched:
    """Search for queries with these terms; for depth, pairs and threads see `pyrite.ranking.bm25.Bm25Index.search`."""
    documents = np.full((len(terms), depth), -1, np.int32)
    scores = np.full((len(terms), depth), -np.inf, np.float32)
    pair_scores = np.full(pairs.shape, -np.inf, np.float32)
    sizes = [len(t) for t in terms]
    most, offsets = max(sizes, default=0), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    flat = np.concatenate(terms).astype(np.int64) if len(terms) else np.zeros(0, np.int64)

    def search_part(rows: NDArray[np.integer]) -> None:
        space = Workspace.of(postings.size, depth, most)
        search(postings, flat, offsets, rows[0], rows[-1] + 1, documents, scores, pairs, pair_scores, space)

    threads = threads or cores()
    parts = [rows for rows in np.array_split(np.arange(len(terms)), threads * 8) if len(rows)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(search_part, parts))
    return documents, scores, pair_scores
