"""Serves BM25's lists from shard actors: each searches some pieces of the documents, and the results are merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import ray
from numpy.typing import NDArray

from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.index.calls import ShardActors
from pyrite.ranking.bm25 import Bm25Index, Searched
from pyrite.ranking.bm25_pieces import PiecedBm25, fewer_first, search_pieces


class Bm25Shard:
    """Searches some pieces of an index: the shard actor, which needs no torch."""

    def find(
        self,
        index: Path,
        pieces: Mapping[int, range],
        terms: Sequence[NDArray[np.integer]],
        depth: int,
        pairs: NDArray[np.int32],
    ) -> Searched:
        """Return the best documents and the scores of pairs, by row in the collection.

        Args:
            index: folder of a `PiecedBm25`, which every node sees; postings are mapped from there.
            pieces: documents of each piece by its number.
            terms, depth, pairs: see `Bm25Index.find`.
        """
        return search_pieces(index, pieces, terms, depth, pairs, 1)


class ServedBm25(Bm25Index):
    """BM25 on shard actors, which Ray restarts if they die. They read the cache, so a restart loses nothing.

    One thread at a time may search.

    Args:
        shards: number of actors; limited to the number of pieces.
        on_lost: wait for a shard that died, or answer without its documents.
    """

    def __init__(
        self,
        index: PiecedBm25,
        shards: int,
        log: Callable[[str], None] = lambda line: None,
        on_lost: Literal["wait", "skip"] = "wait",
    ) -> None:
        self.index, self.queries, self.on_lost = index, index.queries, on_lost
        pieces = dict(enumerate(index.ranges))
        count = min(shards, len(pieces))
        self.pieces = [{n: pieces[n] for n in pieces if n % count == shard} for shard in range(count)]
        nodes = sorted(node["NodeID"] for node in alive_nodes())
        # Shards return rows of the whole collection.
        self.rows = [range(index.ranges[-1].stop)] * count
        meanwhile = "; waiting" if on_lost == "wait" else "; continuing without its documents"
        self.actors = ShardActors(Bm25Shard, [()] * count, nodes, log, "BM25", meanwhile)

    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        def ask(asked: list[NDArray[np.int64]], depth: int, pairs: NDArray[np.int32]) -> list[Searched]:
            arguments = [
                (self.index.folder, pieces, [terms[query] for query in some], depth, pairs[some])
                for pieces, some in zip(self.pieces, asked, strict=True)
            ]
            replies = []
            for shard, reply in enumerate(self.actors.ask("find", arguments)):
                if reply is None and self.on_lost == "wait":
                    reply = self.actors.call(shard, "find", *arguments[shard])
                replies.append(reply or _nothing(len(asked[shard]), depth, pairs.shape[1]))
            return replies

        return fewer_first(ask, self.rows, depth, pairs)

    def close(self) -> None:
        """Stop the actors."""
        for actor in self.actors.actors:
            ray.kill(actor)


def _nothing(queries: int, depth: int, pairs: int) -> Searched:
    """Return the results of a shard without documents."""
    scores = np.full((queries, depth), -np.inf, np.float32)
    return np.full(scores.shape, -1, np.int32), scores, np.full((queries, pairs), -np.inf, np.float32)
