"""Defines a batch of examples and the result of an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.alike import digests, mix
from pyrite.ranking.encoding import EncodedCollection, Judgements


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that can't be written; the array itself still can."""
    view = values.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class Batch:
    """Pairs of a query and one of its relevant documents.

    Its arrays are read-only: a part that changed them would change what the ranker learns from.

    Args:
        queries: int64 [b].
        positives: int32 [b].
        whole: the batch that these pairs are a part of. None if they are all of it.
        mined: int32 [b, t], the documents that other functions have supplied for each query, −1 for none. None if
            unknown.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int32]
    whole: Batch | None = None
    mined: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for name in ("queries", "positives", "mined"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(values))

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: NDArray[np.integer]) -> Batch:
        """Return some of the pairs."""
        return Batch(self.queries[rows], self.positives[rows])

    def part(self, rows: NDArray[np.integer]) -> Batch:
        """Return some of the pairs, with a reference to the batch that they are a part of."""
        mined = None if self.mined is None else self.mined[rows]
        return Batch(self.queries[rows], self.positives[rows], self.whole or self, mined)


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update.

    Args:
        loss: the batch loss before the update.
        gradient_norm: ‖∇L‖₂ over the top layers.
        scores: float32 [b, 1 + n], the scores of positives (column 0) and negatives before the update.
    """

    loss: float
    gradient_norm: float
    scores: NDArray[np.float32]


def pairs_of(encoded: EncodedCollection, queries: NDArray[np.int64], most: int | None = None) -> Batch:
    """Return the pairs of some queries and their relevant documents.

    Args:
        queries: int64, ascending.
        most: the maximum number of pairs, drawn by a hash of query and document, so that fewer are a subset of more.
            None takes all.
    """
    relevant = encoded.judgements.relevant()
    rows = relevant.rows()
    chosen = np.isin(rows, queries)
    pairs = Batch(rows[chosen], relevant.documents[chosen])
    if most is None or len(pairs) <= most:
        return pairs
    # The document by the rank of its id, and the query by its text: neither depends on the order of the files.
    key = digests(encoded.queries, pairs.queries) ^ encoded.document_key[pairs.positives].astype(np.uint64)
    return pairs.take(np.sort(np.argsort(mix(key), kind="stable")[:most]))


class MorePositives:
    """The best other relevant documents of each query, `most` in addition to an example's positive."""

    def __init__(self, judgements: Judgements, most: int) -> None:
        relevant = judgements.relevant()
        rows = relevant.rows()
        order = np.lexsort((relevant.documents, -relevant.grades, rows))
        places = np.arange(len(rows)) - relevant.offsets[rows]
        near = places <= most  # one more than are shown, because the example's positive may be among them
        self.most = most
        self.table = np.full((len(relevant.offsets) - 1, most + 1), -1, np.int32)
        self.table[rows[near], places[near]] = relevant.documents[order][near]

    def of(self, batch: Batch) -> NDArray[np.int32]:
        """Return documents [b, most] in the order of their grades, −1 if there are no more."""
        best = self.table[batch.queries]
        positive = best == batch.positives[:, None]
        order = np.argsort(positive | (best < 0), axis=1, kind="stable")[:, : self.most]
        shown: NDArray[np.int32] = np.where(positive, -1, best)[np.arange(len(best))[:, None], order]
        return shown
