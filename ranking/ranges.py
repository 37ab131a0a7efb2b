"""Divides documents into ranges, and merges the results of searching each.

Does not import torch, which a ranking by BM25 does not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Documents and inner products [q, k], best first; −1 and −inf after the end of a shorter list."""


def shard_ranges(documents: int, shards: int, block: int) -> list[range]:
    """Return the documents of each shard: whole blocks, because a vector's bits depend on its block.

    Args:
        shards: the number of shards wanted. A collection of fewer blocks has as many shards as blocks, at least one.
        block: rows that are read together.
    """
    blocks = max(1, -(-documents // block))
    count = min(shards, blocks)
    bounds = [min(documents, block * (blocks * shard // count)) for shard in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def merge(results: Sequence[Found], ranges: Sequence[range], depth: int) -> Found:
    """Return the best of all shards, as one index of all documents would.

    Inner products are float64 and added up in one order, so nothing depends on how documents were divided. Each shard's
    results have its rows, from 0 up.
    """
    rows = [np.where(rows < 0, -1, rows + held.start) for (rows, _), held in zip(results, ranges, strict=True)]
    return ordered(np.concatenate(rows, axis=1), np.concatenate([products for _, products in results], axis=1), depth)


def within(documents: NDArray[np.integer], held: range) -> NDArray[np.int64]:
    """Return a shard's rows for documents of the collection; −1 for those of other shards and for −1."""
    inside = (documents >= held.start) & (documents < held.stop)
    return np.where(inside, np.asarray(documents, np.int64) - held.start, -1)


def ordered(
    rows: NDArray[np.integer], products: NDArray[np.float64], depth: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the best `depth` of each line, by product descending and then by row; −1 and −inf after a short one."""
    order = np.lexsort((rows, -products), axis=1)[:, :depth]
    best = np.full((len(rows), depth), -1, np.int32), np.full((len(rows), depth), -np.inf)
    best[0][:, : order.shape[1]] = np.take_along_axis(rows, order, 1)
    best[1][:, : order.shape[1]] = np.take_along_axis(products, order, 1)
    return best
