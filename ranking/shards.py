"""Splits vectors into shards by range of documents, and merges what each of them finds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.embedding import BLOCK
from ranking.index import IndexOptions, VectorIndex
from ranking.inner_products import Vectors, ordered

Found = tuple[NDArray[np.int32], NDArray[np.float64]]
"""Documents and inner products [q, k], best first; −1 and −inf behind the end of a shorter list."""


class Searched(Protocol):
    """Vectors of a whole collection that can be searched, wherever they are."""

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The largest inner products of each query; see `VectorIndex.search`."""

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Inner products of queries [q, dimension] with documents [q, m]; −inf where the document is −1."""


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


class ShardedIndex:
    """An index a shard, in this process.

    Args:
        shards: in the order of their documents.
    """

    def __init__(self, shards: Sequence[VectorIndex]) -> None:
        self.shards = shards
        bounds = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])]).tolist()
        self.ranges = [range(start, stop) for start, stop in pairwise(bounds)]

    @classmethod
    def build(cls, vectors: Vectors, options: IndexOptions, shards: int) -> ShardedIndex:
        """Of vectors that are kept as they are given; see `VectorIndex.build`."""
        ranges = shard_ranges(len(vectors), shards, BLOCK)
        return cls([VectorIndex.build(vectors[held.start : held.stop], options) for held in ranges])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """All vectors [documents, dimension], in float32."""
        return np.concatenate([np.asarray(shard.vectors, np.float32) for shard in self.shards])

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """See `Searched`."""
        documents, products = merge([shard.topk(queries, depth) for shard in self.shards], self.ranges, depth)
        return documents, products.astype(np.float32)

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """See `Searched`."""
        parts = [
            shard.scores(queries, within(documents, held)) for shard, held in zip(self.shards, self.ranges, strict=True)
        ]
        return np.max(parts, axis=0)
