"""Encodes many texts as vectors, for an index to be built from and searched with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ranking.alike import digests, group_alike
from ranking.rankers.dense import DenseRanker
from ranking.texts import Texts

BLOCK = 4096
"""Rows that are read together. A row's bits depend on its block alone, so that any worker may take any block."""


def block_starts(rows: int) -> range:
    """Where the blocks of so many rows begin: block `start` holds rows `start : start + BLOCK`."""
    return range(0, rows, BLOCK)


@torch.no_grad()
def embed(ranker: DenseRanker, texts: Texts, rows: NDArray[np.integer], queries: bool = False) -> NDArray[np.float32]:
    """The vectors of the texts at `rows`, read without dropout.

    Block by block in order: whoever shares a collection's rows among workers gives each of them whole blocks, and all
    of them as many threads.

    Args:
        ranker: reads them; it is left in the mode that it was in.
        texts: the documents or the queries.
        rows: indices of the texts.
        queries: whether they are queries.

    Returns:
        float32 [rows, dimension].
    """
    read = ranker.represent_queries if queries else ranker.represent_documents
    vectors = np.empty((len(rows), ranker.dimension), np.float32)
    training = ranker.training
    ranker.eval()
    try:
        for start in block_starts(len(rows)):
            block = rows[start : start + BLOCK]
            # Texts alike are read once: their vectors are equal on any processor, and an index keeps them in order.
            first, alike, _ = group_alike(digests(texts, block, None if queries else ranker.document_reach))
            vectors[start : start + len(block)] = read(texts.take(block[first])).float().cpu().numpy()[alike]
    finally:
        ranker.train(training)
    return vectors
