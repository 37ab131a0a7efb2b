"""Searches vectors in shards by range of documents, and merges their results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.embedding import BLOCK
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.ranges import merge, shard_ranges, within
from pyrite.ranking.torch_topk import Vectors


class Searched(Protocol):
    """Vectors of a whole collection that can be searched, here or elsewhere."""

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the largest inner products of each query; see `pyrite.ranking.index.VectorIndex.search`."""

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return inner products of queries [q, dimension] with documents [q, m]; −inf if the document is −1."""


class ShardedIndex:
    """An index in shards, in the order of their documents, in this process."""

    def __init__(self, shards: Sequence[VectorIndex]) -> None:
        self.shards = shards
        bounds = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])]).tolist()
        self.ranges = [range(start, stop) for start, stop in pairwise(bounds)]

    @classmethod
    def build(cls, vectors: Vectors, options: IndexOptions, shards: int) -> ShardedIndex:
        """Build an index of vectors in their stored form; see `pyrite.ranking.index.VectorIndex.build`."""
        ranges = shard_ranges(len(vectors), shards, BLOCK)
        return cls([VectorIndex.build(vectors[held.start : held.stop], options) for held in ranges])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """All vectors [documents, dimension], in float32."""
        return np.concatenate([np.asarray(shard.vectors, np.float32) for shard in self.shards])

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """See `pyrite.ranking.shards.Searched.search`."""
        documents, products = merge([shard.topk(queries, depth) for shard in self.shards], self.ranges, depth)
        return documents, products.astype(np.float32)

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """See `pyrite.ranking.shards.Searched.scores`."""
        parts = [
            shard.scores(queries, within(documents, held)) for shard, held in zip(self.shards, self.ranges, strict=True)
        ]
        return np.max(parts, axis=0)
