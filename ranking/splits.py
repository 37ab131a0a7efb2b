"""Splits the queries of a collection into those that train, validate and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.collections.collection import Collection
from ranking.collections.splits import folds, shuffled
from ranking.encoding import SPLITS, EncodedCollection


@dataclass(frozen=True)
class Split:
    """Indices of queries, ascending, int64. Only queries with a relevant document are in it."""

    train: NDArray[np.int64]
    dev: NDArray[np.int64]
    test: NDArray[np.int64]


def split_queries(
    collection: Collection, encoded: EncodedCollection, parts: int, limits: Mapping[str, int | None]
) -> list[Split]:
    """The collection's own split, or a split a fold for cross-validation where it has none.

    Args:
        collection: gives the ids.
        encoded: gives splits and judgements.
        parts: how many folds, where the collection has no split (`ranking.collections.splits.folds`).
        limits: queries of `train`, `dev` and `test` at most, None for all. They are drawn by a hash of their
            ids, so that a smaller limit takes some of what a larger one takes.

    Raises:
        BadInput: where there are fewer queries with a relevant document than folds.
    """
    rows = np.flatnonzero(np.diff(encoded.judgements.relevant().offsets))
    queries = collection.queries[rows]
    if (encoded.split >= 0).any():
        codes = [encoded.split[rows]]
    else:
        codes = [fold["split"].replace_strict(SPLITS, range(3)).to_numpy() for fold in folds(queries, parts)]
    places = {query: place for place, query in enumerate(shuffled(queries["id"]))}
    draw = np.array([places[query] for query in queries["id"]])

    def drawn(code: NDArray[np.integer], split: int) -> NDArray[np.int64]:
        own = np.flatnonzero(code == split)
        limit = limits[SPLITS[split]]
        return np.sort(rows[own[np.argsort(draw[own], kind="stable")[:limit]]])

    return [Split(*(drawn(code, split) for split in range(3))) for code in codes]
