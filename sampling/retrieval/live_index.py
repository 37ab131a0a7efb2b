"""Defines the index that dense negatives are searched in, and one that lives in the trainer's process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.embedding import BLOCK, block_starts, embed
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.index_versions import (
    DOCUMENTS,
    IndexVersion,
    finish_version,
    in_precision,
    open_version,
    start_version,
    weights_digest,
    write_block,
)
from pyrite.ranking.query_lists import Listed, QueryLists
from pyrite.ranking.ranges import shard_ranges
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.shards import Searched, ShardedIndex


@dataclass(frozen=True)
class Answer:
    """The answer of one version of an index to some queries.

    Args:
        documents: int32 [q, k], best first, −1 if there are fewer.
        scores: float32 [q, k], inner products, −inf if the document is −1.
        step: the trainer's step when the version's weights were published.
    """

    documents: NDArray[np.int32]
    scores: NDArray[np.float32]
    version: int
    step: int


class NegativeIndex(Protocol):
    """An index of all documents that is rebuilt from newer weights while a ranker trains (Xiong et al. 2021)."""

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        """Publish copies of the ranker's current weights, without waiting for the build."""

    def search(
        self, queries: NDArray[np.integer], depth: int, step: int, vectors: NDArray[np.float32] | None = None
    ) -> Answer:
        """Return the best documents of each query.

        Args:
            step: the reader's current step, which decides the version that may answer.
            vectors: float32 [q, dimension] to search with; None takes the version's.
        """

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return inner products [q, m] by the version that answered last; −inf if the document is −1."""

    def state_dict(self) -> dict[str, Any]:
        """Return what it needs to give the same answers after an interrupt."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`; later publications are discarded."""


@dataclass(frozen=True)
class PublishedWeights:
    """The weights that a version is, or will be, built from.

    Args:
        version: the version's number; None if it gets one when it is built.
        weights: the weights by name, or a reference to their file in Ray's object store.
    """

    version: int | None
    step: int
    weights: Any


def served_from(published: list[PublishedWeights], lag: int, step: int) -> list[PublishedWeights]:
    """Return the publication that is served at `step`, `lag` steps after it was made, and all later ones."""
    due = [index for index, publication in enumerate(published) if publication.step + lag <= step]
    return published[due[-1] if due else 0 :]


class LocalIndex(NegativeIndex):
    """An index in the trainer's process: the trainer waits while a version is built.

    A version published at step s answers from step s + lag on; the first one at once. It is built at its first search,
    so a version that is never read costs nothing.

    Args:
        ranker: a copy of the trained ranker, into which published weights are loaded.
        listed: the queries that are searched when a version is built; None for none.
    """

    def __init__(
        self,
        ranker: DenseRanker,
        encoded: EncodedCollection,
        options: IndexOptions,
        lag: int = 0,
        shards: int = 1,
        listed: Listed | None = None,
    ) -> None:
        self.ranker, self.encoded, self.options, self.lag = ranker.requires_grad_(False), encoded, options, lag
        self.shards, self.listed = shards, listed
        self._temporary: tempfile.TemporaryDirectory[str] | None = None  # for mapped vectors
        self._published: list[PublishedWeights] = []  # the served version, and those to come
        self._built: IndexVersion | None = None
        self._count = 0

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        copies = {name: tensor.detach().clone() for name, tensor in weights.items()}
        self._published.append(PublishedWeights(self._count, step, copies))
        self._count += 1
        self._published = served_from(self._published, self.lag, step)

    def search(
        self, queries: NDArray[np.integer], depth: int, step: int, vectors: NDArray[np.float32] | None = None
    ) -> Answer:
        served = self._version(step)
        return Answer(*served.search(queries, depth, vectors), served.version, served.step)

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        if self._built is None:
            raise RuntimeError("no version has answered yet")
        return self._built.scores(queries, documents, vectors)

    def document_vectors(self, step: int) -> NDArray[np.float32]:
        """Return the float32 vectors [documents, dimension] of the version that answers at `step`, for a trainer."""
        index = self._version(step).index
        assert isinstance(index, ShardedIndex)  # it is all in this process
        return index.vectors

    def state_dict(self) -> dict[str, Any]:
        """Return the weights of the served version and of those that wait."""
        return {"published": [vars(published) for published in self._published], "count": self._count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._published = [PublishedWeights(**published) for published in state["published"]]
        self._count = state["count"]
        self._built = None

    def _version(self, step: int) -> IndexVersion:
        """Return the version that answers at `step`; build it if necessary."""
        if not self._published:
            raise RuntimeError("nothing has been published to the index")
        self._published = served_from(self._published, self.lag, step)
        if self._built is None or self._built.version != self._published[0].version:
            self._built = None  # no reader is left in this process: free its memory first
            self._built = self._build(self._published[0])
        return self._built

    def _build(self, published: PublishedWeights) -> IndexVersion:
        version, step = published.version, published.step
        assert version is not None
        self.ranker.load_state_dict(published.weights)
        digest = weights_digest(published.weights)
        index = self._mapped(version, step, digest) if self.options.memory == "mapped" else self._in_memory()
        everything = np.arange(len(self.encoded.queries))
        queries = embed(self.ranker, self.encoded.queries, everything, queries=True)
        lists = QueryLists.search(index, queries, self.listed) if self.listed else None
        return IndexVersion(version, step, digest, index, queries, lists)

    def _in_memory(self) -> Searched:
        everything = np.arange(len(self.encoded.documents))
        vectors = in_precision(embed(self.ranker, self.encoded.documents, everything), self.options.precision)
        return ShardedIndex.build(vectors, self.options, self.shards)

    def _mapped(self, version: int, step: int, digest: str) -> Searched:
        """Write each shard to disk and map it, with one block of vectors in memory at a time."""
        self._temporary = self._temporary or tempfile.TemporaryDirectory(prefix="pyrite-index-")
        shards = []
        for number, held in enumerate(shard_ranges(len(self.encoded.documents), self.shards, BLOCK)):
            folder = Path(self._temporary.name) / f"version-{number}"
            building = start_version(folder, len(held), 0, self.ranker.dimension, self.options)
            for start in block_starts(len(held)):
                rows = np.arange(held.start + start, min(held.start + start + BLOCK, held.stop))
                write_block(building / DOCUMENTS, start, embed(self.ranker, self.encoded.documents, rows))
            finish_version(building, folder, version, step, digest, self.options)
            finished = open_version(folder)
            assert finished is not None
            assert isinstance(finished.index, VectorIndex)
            shards.append(finished.index)
        return ShardedIndex(shards)
