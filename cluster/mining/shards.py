"""Cuts the queries of a collection into shards, each of which is mined and resumed as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.runs.zero_shot import at_most
from ranking.encoding import SPLITS, EncodedCollection
from ranking.errors import BadInput


@dataclass(frozen=True)
class Shard:
    """Queries of one split that are mined together.

    Args:
        name: name of its files, as `train-00003`.
        number: number among all shards. With the seed it determines every random draw.
        queries: int64, ascending.
    """

    name: str
    number: int
    split: str
    queries: NDArray[np.int64]


def shards_of(encoded: EncodedCollection, config: dict[str, Any]) -> list[Shard]:
    """Return the shards of the requested queries that have a relevant document; refuse a collection without any."""
    answered = np.diff(encoded.judgements.relevant().offsets) > 0
    wanted, size = config["queries"], config["shard"]
    split = (encoded.split >= 0).any()
    names = [wanted] if split and wanted != "all" else [*SPLITS] if split else ["test" if wanted == "test" else "train"]
    shards: list[Shard] = []
    for name in names:
        of_split = encoded.queries_of(name) if split else np.arange(len(encoded.queries))
        queries = at_most(config["most_queries"], encoded.queries, of_split[answered[of_split]])
        for number, start in enumerate(range(0, len(queries), size)):
            part = queries[start : start + size]
            shards.append(Shard(f"{name}-{number:05d}", len(shards), name, part))
    if not answered.any():
        raise BadInput("no judgement is above 0, so no document is relevant", "collection", "check its grades")
    if not shards:
        wanted = "" if wanted == "all" else f"{wanted} "
        raise BadInput(f"no {wanted}query has a relevant document", "queries", "choose train, dev, test or all")
    return shards
