"""Splits the queries of a collection for training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.splits import folds, shuffled
from pyrite.ranking.encoding import SPLITS, EncodedCollection
from pyrite.ranking.errors import none_relevant


@dataclass(frozen=True)
class Split:
    """Indices of queries, ascending, int64. Each query has a relevant document."""

    train: NDArray[np.int64]
    dev: NDArray[np.int64]
    test: NDArray[np.int64]


def split_queries(
    collection: Collection, encoded: EncodedCollection, parts: int, limits: Mapping[str, int | None]
) -> list[Split]:
    """Return the collection's split, or one split per fold for cross-validation if it has none.

    Args:
        parts: the number of folds if the collection has no split (`pyrite.ranking.collections.splits.folds`).
        limits: the maximum numbers of queries of `train`, `dev` and `test`, None for all. They are drawn by a hash of
            their ids, so that a smaller limit takes a subset of a larger one.

    Raises:
        BadInput: if no query has a relevant document, or fewer than there are folds.
    """
    rows = np.flatnonzero(encoded.judgements.answered())
    if not len(rows):
        raise none_relevant(encoded.judgements.relevant_from)
    queries = collection.queries[rows]
    if (encoded.split >= 0).any():
        codes = [encoded.split[rows]]
    else:
        codes = [fold["split"].replace_strict(SPLITS, range(3)).to_numpy() for fold in folds(queries, parts)]
    ranks = {query: rank for rank, query in enumerate(shuffled(queries["id"]))}
    draw = np.array([ranks[query] for query in queries["id"]])

    def drawn(code: NDArray[np.integer], split: int) -> NDArray[np.int64]:
        members = np.flatnonzero(code == split)
        limit = limits[SPLITS[split]]
        return np.sort(rows[members[np.argsort(draw[members], kind="stable")[:limit]]])

    return [Split(*(drawn(code, split) for split in range(3))) for code in codes]
