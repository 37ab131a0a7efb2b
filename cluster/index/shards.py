"""Asks the shards of an index all at once, and waits for those that are lost or goes on without them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.index.errors import unwrapped
from cluster.index.shard import IndexShard
from cluster.telemetry.actor_names import own_name, unique
from ranking.shards import Found, merge, within

SEARCHES = 16
"""Of a shard at once; others wait their turn."""
PAUSES = (0.1, 2.0)
"""Seconds between two calls to a shard that is lost: at first, and at most."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sharding:
    """How an index is shared out.

    Args:
        shards: actors, each with a range of the documents.
        on_lost: whether an answer waits for a shard that died, or goes on without it.
    """

    shards: int = 1
    on_lost: Literal["wait", "skip"] = "wait"


WHOLE = Sharding()
"""In one piece."""


class ShardActors:
    """The actors of an index's shards.

    Ray restarts one that dies, on another machine where its own is gone.

    Args:
        folder: of the index; each shard keeps its versions in `shards/N`.
        ranges: the documents of each.
        nodes: machines to be near to, by turns.
    """

    def __init__(self, folder: Path, ranges: Sequence[range], nodes: Sequence[str]) -> None:
        self.ranges = list(ranges)
        self.lost: set[int] = set()
        options: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "max_concurrency": SEARCHES}
        near = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes]
        actor: Any = ray.remote(num_cpus=0, **options)(IndexShard)
        self.actors: list[Any] = [
            actor.options(
                name=unique(f"{own_name('index')}:shard-{number}"),
                scheduling_strategy=near[number % len(near)] if near else "DEFAULT",
            ).remote(str(folder / "shards" / str(number)))
            for number in range(len(ranges))
        ]

    def call(self, number: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard, and wait while it is lost."""
        pause, limit = PAUSES
        while True:
            try:
                with unwrapped():
                    reply = ray.get(getattr(self.actors[number], method).remote(*arguments))
            except ray.exceptions.RayActorError as error:
                if error.actor_init_failed:
                    raise
                self._lose(number)
                time.sleep(pause)
                pause = min(2 * pause, limit)
            else:
                self._find(number)
                return reply

    def ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Call a method of all shards at once, each with arguments of its own.

        Returns:
            A reply a shard; None of one that is lost.
        """
        sent = [getattr(actor, method).remote(*each) for actor, each in zip(self.actors, arguments, strict=True)]
        replies = []
        for number, order in enumerate(sent):
            try:
                with unwrapped():
                    replies.append(ray.get(order))
                self._find(number)
            except ray.exceptions.RayActorError as error:
                if error.actor_init_failed:
                    raise
                self._lose(number)
                replies.append(None)
        return replies

    def tell(self, method: str, *arguments: Any) -> list[ray.ObjectRef]:
        """Call a method of all shards, and wait for none of them."""
        return [getattr(actor, method).remote(*arguments) for actor in self.actors]

    def _lose(self, number: int) -> None:
        if number not in self.lost:
            self.lost.add(number)
            log.warning("shard %s of the index is lost", number)

    def _find(self, number: int) -> None:
        if number in self.lost:
            self.lost.discard(number)
            log.warning("shard %s of the index is back", number)


class ShardedVersion:
    """The vectors of one version on all shards: a `ranking.shards.Searched`.

    Args:
        actors: that have it.
        step, digest: of the version.
        repair: makes the version on a shard that has lost its disk, before it returns; told which.
        skip: go on without shards that are lost, and have them repaired meanwhile.
    """

    def __init__(
        self,
        actors: ShardActors,
        step: int,
        digest: str,
        repair: Callable[[int], None],
        skip: Callable[[int], None] | None,
    ) -> None:
        self.actors, self.step, self.digest, self.repair, self.skip = actors, step, digest, repair, skip

    def waiting(self) -> ShardedVersion:
        """The same, which goes on without no shard."""
        return ShardedVersion(self.actors, self.step, self.digest, self.repair, None)

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """See `ranking.shards.Searched`."""
        count = len(self.actors.ranges)
        replies: Mapping[int, Found] = self._ask("topk", [(ray.put(queries), depth)] * count)
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
        replies = dict(enumerate(self.actors.ask(method, asked)))
        for number, reply in replies.items():
            while reply is None and self.skip is None:
                if not self.actors.call(number, "has", self.step, self.digest):
                    self.repair(number)
                reply = self.actors.call(number, method, *asked[number])
            if reply is None and self.skip is not None:
                self.skip(number)
            replies[number] = reply
        return {number: reply for number, reply in replies.items() if reply is not None}
