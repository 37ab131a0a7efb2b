"""Asks the shards of an index all at once, and another replica of those that are lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.index.errors import unwrapped
from cluster.index.shard import IndexShard
from cluster.index.turns import Turns
from cluster.telemetry.actor_names import own_name, unique

SEARCHES = 16
"""Of a shard at once; others wait their turn."""
PAUSES = (0.1, 2.0)
"""Seconds between two calls to a shard that is lost: at first, and at most."""


@dataclass(frozen=True)
class Sharding:
    """How an index is shared out.

    Args:
        shards: actors, each with a range of the documents.
        on_lost: whether an answer waits for a shard that died, or goes on without it.
        replicas: actors a shard, which readers are spread over.
    """

    shards: int = 1
    on_lost: Literal["wait", "skip"] = "wait"
    replicas: int = 1

    @property
    def alone(self) -> bool:
        """Whether the index's own actor holds all documents."""
        return self.shards == self.replicas == 1


WHOLE = Sharding()
"""In one piece."""


class ShardActors:
    """The actors of an index's shards, as many a shard as it has replicas.

    Ray restarts one that dies, on another machine where its own is gone. Replicas of a shard are on different machines
    where there are several. An actor is called by its place (`Turns`): with one replica, the number of its shard.

    Args:
        folder: of the index; each shard keeps its versions in `shards/N`, further replicas in `shards/N.R`.
        ranges: the documents of each shard.
        nodes: machines to be near to, by turns.
        replicas: of each shard.
    """

    def __init__(self, folder: Path, ranges: Sequence[range], nodes: Sequence[str], replicas: int = 1) -> None:
        self.ranges, self.turns = list(ranges), Turns(len(ranges), replicas)
        options: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "max_concurrency": SEARCHES}
        near = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes]
        actor: Any = ray.remote(num_cpus=0, **options)(IndexShard)
        self.actors: list[Any] = []
        for replica in range(replicas):
            for number in range(len(ranges)):
                name = f"{number}.{replica}" if replica else str(number)
                placed = near[(number + replica) % len(near)] if near else "DEFAULT"
                named = actor.options(name=unique(f"{own_name('index')}:shard-{name}"), scheduling_strategy=placed)
                self.actors.append(named.remote(str(folder / "shards" / name)))

    def call(self, place: int, method: str, *arguments: Any) -> Any:
        """Call a method of one actor, and wait while it is lost."""
        pause, limit = PAUSES
        while True:
            there, reply = self._hear(place, getattr(self.actors[place], method).remote(*arguments))
            if there:
                return reply
            time.sleep(pause)
            pause = min(2 * pause, limit)

    def ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> tuple[list[Any], set[int]]:
        """Call a method of all shards at once, each with arguments of its own: of one replica of each, by turns.

        Returns:
            A reply a shard, None where no replica has one; and the shards of which some replica is there and has none.
        """
        left = [self.turns.order(number) for number in range(len(self.ranges))]
        sent = [
            getattr(self.actors[order[0]], method).remote(*each) for order, each in zip(left, arguments, strict=True)
        ]
        replies, absent = [], set()
        for number, (order, first) in enumerate(zip(left, sent, strict=True)):
            there, reply = self._hear(order[0], first)
            for place in order[1:]:
                if reply is not None:
                    break
                absent |= {number} if there else set()
                there, reply = self._hear(place, getattr(self.actors[place], method).remote(*arguments[number]))
            absent |= {number} if there and reply is None else set()
            replies.append(reply)
        return replies, absent

    def living(self, method: str, *arguments: Any) -> dict[int, Any]:
        """What the actors say, by place; those that are lost are not among them."""
        heard = {place: self._hear(place, order) for place, order in enumerate(self.tell(method, *arguments))}
        return {place: reply for place, (there, reply) in heard.items() if there}

    def tell(self, method: str, *arguments: Any) -> list[ray.ObjectRef]:
        """Call a method of all actors, and wait for none of them."""
        return [getattr(actor, method).remote(*arguments) for actor in self.actors]

    def _hear(self, place: int, order: ray.ObjectRef) -> tuple[bool, Any]:
        """Whether an actor is there, and its reply."""
        try:
            with unwrapped():
                reply = ray.get(order)
        except ray.exceptions.RayActorError as error:
            if error.actor_init_failed:
                raise
            self.turns.lose(place)
            return False, None
        self.turns.find(place)
        return True, reply
