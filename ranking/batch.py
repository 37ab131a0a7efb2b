"""Defines a batch of examples and what an update of it shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.alike import digests, mix
from ranking.encoding import EncodedCollection


@dataclass(frozen=True)
class Batch:
    """Pairs of a query and one of its relevant documents.

    Args:
        queries: int64 [b].
        positives: int32 [b].
        whole: the batch that these pairs are a part of; None where they are all of it.
        mined: int32 [b, t], what other functions have supplied for each query already, −1 for none; None where nothing
            is told of it.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int32]
    whole: Batch | None = None
    mined: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: NDArray[np.integer]) -> Batch:
        """Some of the pairs."""
        return Batch(self.queries[rows], self.positives[rows])

    def part(self, rows: NDArray[np.integer]) -> Batch:
        """Some of the pairs, which remember the batch that they are a part of."""
        mined = None if self.mined is None else self.mined[rows]
        return Batch(self.queries[rows], self.positives[rows], self.whole or self, mined)


@dataclass(frozen=True)
class UpdateResult:
    """What one update showed.

    Args:
        loss: of the batch, before the update.
        gradient_norm: ‖∇L‖₂ over the top layers.
        scores: float32 [b, 1 + n], of the positives (column 0) and negatives, before the update.
    """

    loss: float
    gradient_norm: float
    scores: NDArray[np.float32]


def pairs_of(encoded: EncodedCollection, queries: NDArray[np.int64], most: int | None = None) -> Batch:
    """The pairs of some queries with what is relevant for them.

    Args:
        encoded: the collection.
        queries: int64, ascending.
        most: pairs at most, drawn by a hash of query and document, so that fewer are some of more; None for all.
    """
    relevant = encoded.judgements.relevant()
    rows = relevant.rows()
    chosen = np.isin(rows, queries)
    pairs = Batch(rows[chosen], relevant.documents[chosen])
    if most is None or len(pairs) <= most:
        return pairs
    # The document's place by its id, and the query by its text: neither depends on the order of the files.
    key = digests(encoded.queries, pairs.queries) ^ encoded.document_key[pairs.positives].astype(np.uint64)
    return pairs.take(np.sort(np.argsort(mix(key), kind="stable")[:most]))
