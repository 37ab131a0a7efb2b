"""Encodes many texts as vectors, to build and search an index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.alike import digests, group_alike
from pyrite.ranking.lazy import scipy
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.reading_progress import reading
from pyrite.ranking.texts import Texts

BLOCK = 4096
"""Rows that are read together. A row's bits depend only on its block, so any worker may take any block."""


def block_starts(rows: int) -> range:
    """Return the starts of the blocks of `rows` rows: block `start` holds rows `start : start + BLOCK`."""
    return range(0, rows, BLOCK)


def embed(ranker: DenseRanker, texts: Texts, rows: NDArray[np.integer], queries: bool = False) -> NDArray[np.float32]:
    """Return the vectors [rows, dimension] of the texts at `rows`, read without dropout.

    They are read block by block: to share a collection's rows among workers, give each whole blocks, and all of them
    the same number of threads.
    """
    vectors = np.empty((len(rows), ranker.dimension), np.float32)
    with reading(len(rows)):
        for start, block in _blocks(ranker, texts, rows, queries):
            vectors[start : start + len(block)] = block
    return vectors


def embed_sparse(
    ranker: DenseRanker, texts: Texts, rows: NDArray[np.integer], queries: bool = False
) -> scipy.sparse.csr_array:
    """Return the same vectors as a sparse array, without holding all of their zeros."""
    with reading(len(rows)):
        blocks = [scipy.sparse.csr_array(block) for _, block in _blocks(ranker, texts, rows, queries)]
    return scipy.sparse.vstack([scipy.sparse.csr_array((0, ranker.dimension), dtype=np.float32), *blocks], format="csr")


@torch.no_grad()
def _blocks(
    ranker: DenseRanker, texts: Texts, rows: NDArray[np.integer], queries: bool
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the start and the vectors of each block."""
    read = ranker.represent_queries if queries else ranker.represent_documents
    training = ranker.training
    ranker.eval()
    try:
        for start in block_starts(len(rows)):
            block = rows[start : start + BLOCK]
            # Texts alike are read once: their vectors are equal on any processor, so an index keeps them in order.
            first, alike, _ = group_alike(digests(texts, block, None if queries else ranker.document_reach))
            yield start, read(texts.take(block[first])).float().cpu().numpy()[alike]
    finally:
        ranker.train(training)
