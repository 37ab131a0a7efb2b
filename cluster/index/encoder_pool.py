"""Shares blocks of texts among encoder actors."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import get_current_placement_group

from cluster.index.corpus import Corpus, Size
from cluster.index.encoder import Encoder
from cluster.index.encoder_options import EncoderOptions
from cluster.telemetry.actor_names import own_name, unique
from ranking.index_versions import finish_version, write_block

LOSSES = 3
"""How often a block is done again whose encoder dies over it; after that the block itself is to blame."""


@dataclass(frozen=True)
class Block:
    """Texts that one encoder takes at once, and the file that their vectors belong in.

    Args:
        start, stop: of the texts.
        queries: whether they are queries.
        path: the file.
        row: of the file, for the first of them.
        shard: whose file it is, None where it is this machine's.
    """

    start: int
    stop: int
    queries: bool
    path: Path
    row: int
    shard: int | None = None


class Waiting:
    """Blocks that nobody has taken, by the machine that their file is on.

    Args:
        blocks: in order.
        nodes: of each shard.
    """

    def __init__(self, blocks: Sequence[Block], nodes: Sequence[str] = ()) -> None:
        self._of: dict[str, deque[Block]] = {}
        for block in blocks:
            self._of.setdefault("" if block.shard is None else nodes[block.shard], deque()).append(block)

    def __bool__(self) -> bool:
        return bool(self._of)

    def take(self, node: str) -> Block:
        """The next one of a machine; of the one that has most left where that has none."""
        chosen = node if node in self._of else max(self._of, key=lambda each: len(self._of[each]))
        block = self._of[chosen].popleft()
        if not self._of[chosen]:
            del self._of[chosen]
        return block


class EncoderPool:
    """Encoder actors. Ray restarts one that dies and does its block again.

    Args:
        corpus: what they encode.
        options: how many, and with what.
        size: texts a block.
    """

    def __init__(self, corpus: Corpus, options: EncoderOptions, size: int) -> None:
        self.size = size
        actor = ray.remote(
            num_cpus=options.cpu, num_gpus=options.gpu, max_restarts=-1, max_task_retries=LOSSES
        )(Encoder)  # fmt: skip
        made = (corpus, options.threads, options.gpu > 0, options.precision)
        names = [unique(f"{own_name('index')}:encoder-{number}") for number in range(options.encoders)]
        # Those in a placement group stay there.
        apart = {"scheduling_strategy": "SPREAD"} if options.spread and get_current_placement_group() is None else {}
        self.actors: list[Any] = [actor.options(name=name, **apart).remote(*made) for name in names]
        self._arriving: dict[ray.ObjectRef, Any] = {}
        self._nodes: dict[Any, str] = {}

    def nodes(self) -> list[str]:
        """The machines that encoders run on: of those that have come so far."""
        found = {self._node(actor) for actor in self.actors if actor not in self._arriving.values()}
        return sorted(found)

    def _node(self, actor: Any) -> str:
        if actor not in self._nodes:
            self._nodes[actor] = ray.get(actor.node.remote())
        return self._nodes[actor]

    def measure(self, weights: ray.ObjectRef, digest: str) -> Size:
        """What there is to encode, with these weights, by the first encoder to say so."""
        self._arriving = {actor.size.remote(weights, digest): actor for actor in self.actors}
        (first, *_), _ = ray.wait(list(self._arriving))
        size: Size = ray.get(first)
        del self._arriving[first]
        return size

    def blocks(self, rows: range, queries: bool, path: Path, shard: int | None = None) -> list[Block]:
        """The blocks of so many rows, in order; the first of them begins a block."""
        starts = range(rows.start, rows.stop, self.size)
        return [
            Block(start, min(start + self.size, rows.stop), queries, path, start - rows.start, shard)
            for start in starts
        ]

    def encode(
        self,
        weights: ray.ObjectRef,
        digest: str,
        blocks: Sequence[Block],
        shards: Sequence[Any] = (),
        nodes: Sequence[str] = (),
    ) -> None:
        """Have every block encoded and written; an encoder that is done with one takes the next.

        One that the cluster has no room for yet takes its first block when it has come, if any is left. Vectors of a
        shard on another machine go from the encoder to the shard, and not through here.

        Args:
            weights, digest: what to encode with.
            blocks: to be encoded.
            shards: actors that keep what a block's `shard` says.
            nodes: the machine of each.

        Raises:
            ray.exceptions.ActorDiedError: where encoders die over the same block again and again.
        """
        waiting = Waiting(blocks, nodes)
        arriving = dict(self._arriving)
        free = [actor for actor in self.actors if actor not in arriving.values()]
        running: dict[ray.ObjectRef, tuple[Any, Block, ray.ObjectRef]] = {}
        sent: list[ray.ObjectRef] = []
        while waiting or running:
            while free and waiting:
                actor = free.pop()
                block = waiting.take(self._node(actor) if nodes else "")
                asked = (weights, digest, block.start, block.stop, block.queries, str(block.path), block.row)
                written, vectors = actor.encode.options(num_returns=2).remote(*asked)
                running[written] = actor, block, vectors
            (done, *_), _ = ray.wait([*running, *(arriving if waiting else ())])
            if done in running:
                actor, block, vectors = running.pop(done)
                if not ray.get(done):  # the encoder does not see the file
                    if block.shard is None:
                        write_block(block.path, block.row, ray.get(vectors))
                    else:
                        sent.append(shards[block.shard].write.remote(block.path.parent, block.row, vectors))
                        del vectors
                        if len(sent) > 2 * len(self.actors):  # no more than that in the object store
                            ready, sent = ray.wait(sent, num_returns=len(sent) // 2)
                            hear(ready)
            else:
                actor = arriving.pop(done)
                self._arriving.pop(done, None)
                ray.get(done)
            free.append(actor)
        hear(sent)

    def finish(self, building: Path, *arguments: Any) -> None:
        """Have `finish_version` done by an encoder: what builds FAISS's index must not hold up readers."""
        if not ray.get(self.actors[0].finish.remote(building, *arguments)):
            finish_version(building, *arguments)

    def finish_shards(self, orders: Sequence[tuple[int, Sequence[Any]]], shards: Sequence[Any]) -> None:
        """The same for shards, by all encoders; by the shard itself where an encoder does not see its files.

        Args:
            orders: shard and arguments of each `finish_version`.
            shards: the actors.
        """
        sent = [
            self.actors[place % len(self.actors)].finish.remote(*arguments)
            for place, (_, arguments) in enumerate(orders)
        ]
        for (shard, (building, _, *rest)), order in zip(orders, sent, strict=True):
            if not ray.get(order):
                hear([shards[shard].finish.remote(building, *rest)])


def hear(sent: Sequence[ray.ObjectRef]) -> None:
    """Wait for what shards were told, and raise what they refused; that one was lost is found out otherwise."""
    for order in sent:
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(order)
