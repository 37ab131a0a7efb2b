"""Which queries train, validate and test."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput


@dataclass(frozen=True)
class Split:
    """Indices of queries, ascending, int64. Only queries with a relevant document are in it."""

    train: NDArray[np.int64]
    dev: NDArray[np.int64]
    test: NDArray[np.int64]


def split_queries(
    collection: Collection, encoded: EncodedCollection, folds: int, limits: Mapping[str, int | None]
) -> list[Split]:
    """The collection's own split, or `folds` splits for cross-validation where it has none.

    In fold i the queries of part i test, those of part i + 1 validate and the rest train, so each
    query is tested once.

    Args:
        collection: gives the ids.
        encoded: gives splits and judgements.
        folds: how many parts, where the collection has no split.
        limits: queries of `train`, `dev` and `test` at most, None for all. They are drawn by a hash of their
            ids, so that a smaller limit takes some of what a larger one takes.

    Raises:
        BadInput: where there are fewer queries with a relevant document than folds.
    """
    draw = np.array(
        [int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big") for name in collection.queries["id"]]
    )
    relevant = np.diff(encoded.judgements.relevant().offsets) > 0
    if (encoded.split >= 0).any():
        own = {
            name: np.flatnonzero(relevant & (encoded.split == place))
            for place, name in enumerate(("train", "dev", "test"))
        }
        return [Split(**{name: limited(own[name], draw, limits[name]) for name in own})]
    # Parts of equal size: the queries in the order of their hashes, dealt round.
    queries = np.flatnonzero(relevant)
    if len(queries) < folds:
        raise BadInput(f"{len(queries)} queries with a relevant document make no {folds} folds", "folds", "take fewer")
    part = np.empty(len(queries), np.int64)
    part[np.argsort(draw[queries], kind="stable")] = np.arange(len(queries)) % folds
    splits = []
    for fold in range(folds):
        test, dev = part == fold, part == (fold + 1) % folds
        chosen = {
            "train": queries[~test & ~dev] if folds > 2 else queries[dev],
            "dev": queries[dev],
            "test": queries[test],
        }
        splits.append(Split(**{name: limited(chosen[name], draw, limits[name]) for name in chosen}))
    return splits


def limited(queries: NDArray[np.int64], draw: NDArray[np.int64], limit: int | None) -> NDArray[np.int64]:
    """At most `limit` of the queries, those with the lowest draws."""
    if limit is None or len(queries) <= limit:
        return queries
    return np.sort(queries[np.argsort(draw[queries], kind="stable")[:limit]])
