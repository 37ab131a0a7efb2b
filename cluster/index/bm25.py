"""Serves BM25's lists from shard actors: each searches some pieces of the documents, and what they find is merged."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.owner import claim, remove_orphans
from cluster.index.shards import ShardActors
from ranking.bm25 import Bm25Index, Searched
from ranking.bm25_pieces import PiecedBm25, merged

LAST_WORDS = 5
"""Seconds in which shards hear that their index has ended."""


class ServedBm25(Bm25Index):
    """BM25 on shard actors, which Ray restarts where they die: they read what is in the cache, and lose nothing.

    Searched by one thread at a time.

    Args:
        index: whose pieces are shared out.
        shards: actors; never more than there are pieces.
        folder: of what the shards of this run keep; a folder of its own is made there.
        note: told that a shard is lost, and that it is back.
        on_lost: whether an answer waits for a shard that died, or goes on without its documents.
        replicas: actors a shard, which are asked by turns.
    """

    def __init__(
        self,
        index: PiecedBm25,
        shards: int,
        folder: Path,
        note: Callable[[str], None] = lambda line: None,
        on_lost: Literal["wait", "skip"] = "wait",
        replicas: int = 1,
    ) -> None:
        self.index, self.queries, self.note, self.on_lost = index, index.queries, note, on_lost
        self._lost: set[int] = set()
        pieces = dict(enumerate(index.ranges))
        count = min(shards, len(pieces))
        self.held = [{number: pieces[number] for number in pieces if number % count == shard} for shard in range(count)]
        self.place = folder / uuid.uuid4().hex[:8]
        claim(self.place)
        nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
        # What is found has rows of the collection already.
        self.rows = [range(index.ranges[-1].stop)] * count
        self.actors = ShardActors(self.place, self.rows, nodes, replicas)

    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        asked = [(self.index.folder, held, terms, depth, pairs) for held in self.held]
        replies, _ = self.actors.ask("bm25", asked)
        found = []
        for number, reply in enumerate(replies):
            if reply is None:
                self._lose(number)
                if self.on_lost == "skip":
                    continue
                reply = self.actors.call(number, "bm25", *asked[number])
            if number in self._lost:
                self._lost.discard(number)
                self.note(f"shard {number} of BM25 is back")
            found.append(reply)
        if not found:
            nothing = np.full((len(terms), depth), -np.inf, np.float32)
            return np.full(nothing.shape, -1, np.int32), nothing, np.full(pairs.shape, -np.inf, np.float32)
        return merged(found, self.rows[: len(found)], depth)

    def _lose(self, number: int) -> None:
        if number not in self._lost:
            self._lost.add(number)
            said = "waiting" if self.on_lost == "wait" else "going on without its documents"
            self.note(f"shard {number} of BM25 is lost; {said}")

    def close(self) -> None:
        """End the actors and remove what they kept."""
        with contextlib.suppress(ray.exceptions.RayError):
            ray.wait(told := self.actors.tell("clear"), num_returns=len(told), timeout=LAST_WORDS)
        for actor in self.actors.actors:
            ray.kill(actor)
        shutil.rmtree(self.place, ignore_errors=True)
        remove_orphans(self.place.parent)
        with contextlib.suppress(OSError):
            self.place.parent.rmdir()
