"""Calls the shard actors of an index, all at once or one that may be lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.index.calls import retries, unwrapped
from cluster.index.shard import IndexShard
from cluster.telemetry.metrics import own_name, unique

MAX_SEARCHES = 16
"""Searches that a shard runs at once; others wait."""
logger = logging.getLogger(__name__)


class ShardActors:
    """One actor per shard. Ray restarts one that dies, on another node if its own is gone.

    Args:
        folder: folder of the index; each shard keeps its versions in `shards/N`.
        ranges: documents of each shard.
        nodes: preferred nodes, used round-robin.

    Attributes:
        lost: shards that did not answer their last call.
    """

    def __init__(self, folder: Path, ranges: Sequence[range], nodes: Sequence[str]) -> None:
        self.ranges, self.lost = list(ranges), set[int]()
        options: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "max_concurrency": MAX_SEARCHES}
        actor: Any = ray.remote(num_cpus=0, **options)(IndexShard)
        near: list[Any] = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes] or ["DEFAULT"]
        self.actors: list[Any] = [
            actor.options(
                name=unique(f"{own_name('index')}:shard-{number}"), scheduling_strategy=near[number % len(near)]
            ).remote(str(folder / "shards" / str(number)))
            for number in range(len(self.ranges))
        ]

    def call(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard, and call again while the shard is lost."""
        for _ in retries():
            alive, reply = self._receive(shard, getattr(self.actors[shard], method).remote(*arguments))
            if alive:
                break
        return reply

    def ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Call a method of all shards at once, with separate arguments for each.

        Returns:
            One reply per shard; None if the shard is lost, or returned None.
        """
        calls = [getattr(actor, method).remote(*each) for actor, each in zip(self.actors, arguments, strict=True)]
        return [self._receive(shard, call)[1] for shard, call in enumerate(calls)]

    def send_all(self, method: str, *arguments: Any) -> list[ray.ObjectRef]:
        """Call a method of all shards with the same arguments, without waiting."""
        return [getattr(actor, method).remote(*arguments) for actor in self.actors]

    def mark_lost(self, shard: int) -> None:
        """Record that a shard did not answer."""
        if shard not in self.lost:
            logger.warning("shard %s of the index is lost", shard)
        self.lost.add(shard)

    def mark_alive(self, shard: int) -> None:
        """Record that a shard answered."""
        if shard in self.lost:
            logger.warning("shard %s of the index is back", shard)
        self.lost.discard(shard)

    def _receive(self, shard: int, call: ray.ObjectRef) -> tuple[bool, Any]:
        """Return whether the shard is alive, and its reply."""
        try:
            with unwrapped():
                reply = ray.get(call)
        except ray.exceptions.RayActorError as error:
            if error.actor_init_failed:
                raise
            self.mark_lost(shard)
            return False, None
        self.mark_alive(shard)
        return True, reply
