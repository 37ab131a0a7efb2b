"""Shares documents out in ranges, and merges what is found in each of them.

Without torch, which who ranks by BM25 has no need of.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Documents and inner products [q, k], best first; −1 and −inf behind the end of a shorter list."""


def shard_ranges(documents: int, shards: int, block: int) -> list[range]:
    """The documents of each shard: whole blocks, since a vector's bits depend on the block that it is read in.

    Args:
        documents: how many there are.
        shards: that are wanted; a collection of fewer blocks has as many shards as blocks, and one at least.
        block: rows that are read together.
    """
    blocks = max(1, -(-documents // block))
    count = min(shards, blocks)
    bounds = [min(documents, block * (blocks * shard // count)) for shard in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def merge(found: Sequence[Found], ranges: Sequence[range], depth: int) -> Found:
    """The best of all shards, as one index of all documents would have found them.

    Inner products are float64 and added up in one order, so that nothing depends on how documents were shared out.

    Args:
        found: of each shard, with rows of its own from 0 up.
        ranges: the documents of each shard.
        depth: results a query.
    """
    rows = [np.where(rows < 0, -1, rows + held.start) for (rows, _), held in zip(found, ranges, strict=True)]
    return ordered(np.concatenate(rows, axis=1), np.concatenate([products for _, products in found], axis=1), depth)


def within(documents: NDArray[np.integer], held: range) -> NDArray[np.int64]:
    """Rows of a shard for documents of the collection; −1 for those of other shards and for −1."""
    inside = (documents >= held.start) & (documents < held.stop)
    return np.where(inside, np.asarray(documents, np.int64) - held.start, -1)


def ordered(
    rows: NDArray[np.integer], products: NDArray[np.float64], depth: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The best `depth` of each line, by product from the top and then by row; −1 and −inf behind a short one."""
    order = np.lexsort((rows, -products), axis=1)[:, :depth]
    best = np.full((len(rows), depth), -1, np.int32), np.full((len(rows), depth), -np.inf)
    best[0][:, : order.shape[1]] = np.take_along_axis(rows, order, 1)
    best[1][:, : order.shape[1]] = np.take_along_axis(products, order, 1)
    return best
