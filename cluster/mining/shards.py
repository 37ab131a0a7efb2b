"""Cuts the queries of a collection into shards: the pieces in which they are mined, and gone on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.alike import digests, mix
from ranking.encoding import SPLITS, EncodedCollection
from ranking.errors import BadInput


@dataclass(frozen=True)
class Shard:
    """Some queries of one split.

    Args:
        name: of its files, as `train-00003`.
        number: among all shards: with the seed it decides every draw.
        split: of its queries.
        queries: int64, ascending.
    """

    name: str
    number: int
    split: str
    queries: NDArray[np.int64]


def shards_of(encoded: EncodedCollection, config: dict[str, Any]) -> list[Shard]:
    """The shards of the queries that are asked for and have a relevant document.

    Raises:
        BadInput: where there are none.
    """
    answered = np.diff(encoded.judgements.relevant().offsets) > 0
    wanted, size = config["queries"], config["shard"]
    split = (encoded.split >= 0).any()
    names = [wanted] if split and wanted != "all" else [*SPLITS] if split else ["train"]
    shards: list[Shard] = []
    for name in names:
        of_split = encoded.queries_of(name) if split else np.arange(len(encoded.queries))
        queries = _most(encoded, of_split[answered[of_split]], config["most_queries"])
        for number, start in enumerate(range(0, len(queries), size)):
            part = queries[start : start + size]
            shards.append(Shard(f"{name}-{number:05d}", len(shards), name, part))
    if not shards:
        raise BadInput(f"no {wanted} query has a relevant document", "queries", "choose train, dev, test or all")
    return shards


def _most(encoded: EncodedCollection, queries: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """So many of the queries, by a hash of their texts, so that fewer are some of more."""
    if most is None or len(queries) <= most:
        return queries
    key = mix(digests(encoded.queries, queries))
    return np.sort(queries[np.argsort(key, kind="stable")[:most]])
