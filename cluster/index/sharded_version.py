"""Searches one version of an index on all its shards, and waits for those that are lost or goes on without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.shards import ShardActors
from ranking.ranges import merge, within


class ShardedVersion:
    """The vectors of one version on all shards: a `ranking.shards.Searched`.

    Args:
        actors: that have it.
        step, digest: of the version.
        repair: makes the version on a shard that has lost its disk, before it returns; told which.
        mend: the same behind readers' backs.
        skip: go on without shards that are lost, and have them mended meanwhile.
    """

    def __init__(
        self,
        actors: ShardActors,
        step: int,
        digest: str,
        repair: Callable[[int], None],
        mend: Callable[[int], None],
        skip: bool = False,
    ) -> None:
        self.actors, self.step, self.digest = actors, step, digest
        self.repair, self.mend, self.skip = repair, mend, skip

    def waiting(self) -> ShardedVersion:
        """The same, which goes on without no shard."""
        return ShardedVersion(self.actors, self.step, self.digest, self.repair, self.mend)

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """See `ranking.shards.Searched`."""
        count = len(self.actors.ranges)
        replies = self._ask("topk", [(ray.put(queries), depth)] * count)
        ranges = [self.actors.ranges[number] for number in replies]
        if not ranges:
            return np.full((len(queries), depth), -1, np.int32), np.full((len(queries), depth), -np.inf, np.float32)
        documents, products = merge(list(replies.values()), ranges, depth)
        return documents, products.astype(np.float32)

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """See `ranking.shards.Searched`."""
        vectors = ray.put(queries)
        replies = self._ask("scores", [(vectors, within(documents, held)) for held in self.actors.ranges])
        return np.max([np.full(documents.shape, -np.inf, np.float32), *replies.values()], axis=0)

    def _ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> dict[int, Any]:
        """The replies by shard: of all shards, or, where those that are lost are skipped, of some."""
        asked = [(self.step, self.digest, *each) for each in arguments]
        replies, absent = self.actors.ask(method, asked)
        for number, reply in enumerate(replies):
            while reply is None and not self.skip:
                if not self.actors.call(number, "has", self.step, self.digest):
                    self.repair(number)
                reply = self.actors.call(number, method, *asked[number])
            if reply is None:
                absent.add(number)
            elif replies[number] is None:  # waited for, and repaired
                absent.discard(number)
            replies[number] = reply
        for number in absent:
            self.mend(number)
        return {number: reply for number, reply in enumerate(replies) if reply is not None}
