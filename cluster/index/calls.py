"""Calls the actors of an index, again if they are lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pyrite.cluster.limits import MAX_SEARCHES, RETRY_BACKOFF_S
from pyrite.cluster.telemetry.metrics import own_name, unique
from pyrite.ranking.errors import BadInput


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise `BadInput` from an actor as itself, without Ray's traceback around it."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BadInput):
            raise error.cause from None
        raise


def retries() -> Iterator[None]:
    """Yield once per attempt, with a growing pause before each one after the first."""
    pause, longest = RETRY_BACKOFF_S
    yield
    while True:
        time.sleep(pause)
        pause = min(2 * pause, longest)
        yield


logger = logging.getLogger(__name__)


class ShardActors:
    """One actor per shard. Ray restarts one that dies, on another node if the previous one is gone.

    Args:
        kind, arguments: class of the actors, and arguments of each one's constructor.
        nodes: preferred nodes, used round-robin.
        log: called with one line when a shard is lost, and when it is back.
        of, meanwhile: the index, and what happens until a lost shard is back, for these lines.

    Attributes:
        lost: shards that did not answer their last call.
    """

    def __init__(
        self,
        kind: type,
        arguments: Sequence[Sequence[Any]],
        nodes: Sequence[str],
        log: Callable[[str], None] = logger.warning,
        of: str = "the index",
        meanwhile: str = "",
    ) -> None:
        self.lost = set[int]()
        self.log, self.of, self.meanwhile = log, of, meanwhile
        options: dict[str, Any] = {"max_restarts": -1, "max_task_retries": 0, "max_concurrency": MAX_SEARCHES}
        actor: Any = ray.remote(num_cpus=0, **options)(kind)
        near: list[Any] = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes] or ["DEFAULT"]
        self.actors: list[Any] = [
            actor.options(
                name=unique(f"{own_name('index')}:shard-{number}"), scheduling_strategy=near[number % len(near)]
            ).remote(*of_shard)
            for number, of_shard in enumerate(arguments)
        ]

    def call(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one shard, and call again while the shard is lost."""
        for _ in retries():
            alive, reply = self._receive(shard, getattr(self.actors[shard], method).remote(*arguments))
            if alive:
                break
        return reply

    def ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Call a method of all shards at once, each with its arguments; a lost shard's reply is None."""
        calls = [getattr(actor, method).remote(*each) for actor, each in zip(self.actors, arguments, strict=True)]
        return [self._receive(shard, call)[1] for shard, call in enumerate(calls)]

    def send_all(self, method: str, *arguments: Any) -> list[ray.ObjectRef]:
        """Call a method of all shards with the same arguments, without waiting."""
        return [getattr(actor, method).remote(*arguments) for actor in self.actors]

    def _receive(self, shard: int, call: ray.ObjectRef) -> tuple[bool, Any]:
        """Return whether the shard is alive, and its reply."""
        try:
            with unwrapped():
                reply = ray.get(call)
        except ray.exceptions.RayActorError as error:
            if error.actor_init_failed:
                raise
            if shard not in self.lost:
                self.log(f"shard {shard} of {self.of} is lost{self.meanwhile}")
            self.lost.add(shard)
            return False, None
        if shard in self.lost:
            self.log(f"shard {shard} of {self.of} is back")
        self.lost.discard(shard)
        return True, reply
