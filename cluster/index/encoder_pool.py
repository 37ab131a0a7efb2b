"""Distributes blocks of texts among encoder actors."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import get_current_placement_group

from cluster.index.calls import MAX_RESTARTS
from cluster.index.encoder import Corpus, CorpusSize, IndexEncoder, TextBlock
from cluster.telemetry.metrics import own_name, unique
from ranking.index_versions import finish_version, write_block


@dataclass(frozen=True)
class EncoderOptions:
    """Number and resources of the encoder actors.

    Only `cpu`, `gpu` and `precision` can change the vectors.

    Args:
        encoders: number of actors.
        cpu: cores per actor, or a share of one; torch uses as many threads.
        gpu: GPUs per actor, or a share of one.
        spread: place actors on different nodes, on free resources instead of the trial's placement group.
        precision: precision of the ranker's weights while it encodes; None keeps that of the ranker.
    """

    encoders: int = 1
    cpu: float = 1
    gpu: float = 0.0
    spread: bool = False
    precision: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], precision: str | None = None) -> EncoderOptions:
        """Return number and resources of the encoders of each index of a run."""
        return cls(**config["index"], spread=config["resources"]["placement"] == "spread", precision=precision)


class WaitingBlocks:
    """Blocks that no encoder has yet, grouped by the node of their file."""

    def __init__(self, blocks: Sequence[TextBlock], nodes: Mapping[int, str]) -> None:
        self._by_node: dict[str, deque[TextBlock]] = {}
        for block in blocks:
            self._by_node.setdefault("" if block.shard is None else nodes[block.shard], deque()).append(block)

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def take(self, node: str) -> TextBlock:
        """Remove and return the next block of a node, or of the node with the most blocks if this one has none."""
        chosen = node if node in self._by_node else max(self._by_node, key=lambda name: len(self._by_node[name]))
        block = self._by_node[chosen].popleft()
        if not self._by_node[chosen]:
            del self._by_node[chosen]
        return block


class EncoderPool:
    """Encoder actors. Ray restarts one that dies and repeats its block.

    Args:
        size: texts per block.
    """

    def __init__(self, corpus: Corpus, options: EncoderOptions, size: int) -> None:
        self.size = size
        actor = ray.remote(
            num_cpus=options.cpu, num_gpus=options.gpu, max_restarts=-1, max_task_retries=MAX_RESTARTS
        )(IndexEncoder)  # fmt: skip
        arguments = (corpus, max(1, int(options.cpu)), options.gpu > 0, options.precision)
        names = [unique(f"{own_name('index')}:encoder-{number}") for number in range(options.encoders)]
        # Actors of a placement group stay in it.
        spread = {"scheduling_strategy": "SPREAD"} if options.spread and get_current_placement_group() is None else {}
        self.actors: list[Any] = [actor.options(name=name, **spread).remote(*arguments) for name in names]
        self._arriving: dict[ray.ObjectRef, Any] = {}
        self._nodes: dict[Any, str] = {}

    def nodes(self) -> list[str]:
        """Return the nodes of the encoders that have started so far."""
        return sorted({self._node(actor) for actor in self.actors if actor not in self._arriving.values()})

    def _node(self, actor: Any) -> str:
        if actor not in self._nodes:
            self._nodes[actor] = ray.get(actor.node.remote())
        return self._nodes[actor]

    def measure(self, weights: ray.ObjectRef, digest: str) -> CorpusSize:
        """Return what must be encoded with these weights, as the first encoder to start reports it."""
        self._arriving = {actor.size.remote(weights, digest): actor for actor in self.actors}
        (first, *_), _ = ray.wait(list(self._arriving))
        size: CorpusSize = ray.get(first)
        del self._arriving[first]
        return size

    def blocks(self, rows: range, queries: bool, path: Path, shard: int | None = None) -> list[TextBlock]:
        """Return the blocks of a range of rows, in order; the range begins with a block."""
        starts = range(rows.start, rows.stop, self.size)
        return [
            TextBlock(start, min(start + self.size, rows.stop), queries, path, start - rows.start, shard)
            for start in starts
        ]

    def encode(
        self,
        weights: ray.ObjectRef,
        digest: str,
        blocks: Sequence[TextBlock],
        shards: Sequence[Any] = (),
        nodes: Mapping[int, str] | None = None,
    ) -> None:
        """Encode and write all blocks; an encoder that is finished with one block gets the next.

        An encoder that the cluster has no room for yet gets its first block when it starts, if any is left. Vectors
        of a shard on another node travel from the encoder to the shard, and not through this process.

        Args:
            shards: shard actors, by `TextBlock.shard`.

        Raises:
            ray.exceptions.ActorDiedError: if encoders die repeatedly on the same block.
        """
        waiting = WaitingBlocks(blocks, nodes or {})
        arriving = dict(self._arriving)
        free = [actor for actor in self.actors if actor not in arriving.values()]
        running: dict[ray.ObjectRef, tuple[Any, TextBlock, ray.ObjectRef]] = {}
        sent: list[ray.ObjectRef] = []
        while waiting or running:
            while free and waiting:
                actor = free.pop()
                block = waiting.take(self._node(actor) if nodes else "")
                written, vectors = actor.encode.options(num_returns=2).remote(weights, digest, block)
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
                        if len(sent) > 2 * len(self.actors):  # bounds what waits in the object store
                            ready, sent = ray.wait(sent, num_returns=len(sent) // 2)
                            wait_for_shards(ready)
            else:
                actor = arriving.pop(done)
                self._arriving.pop(done, None)
                ray.get(done)
            free.append(actor)
        wait_for_shards(sent)

    def finish(self, building: Path, *arguments: Any) -> None:
        """Call `finish_version` in an encoder, so that building FAISS's index does not delay readers."""
        if not ray.get(self.actors[0].finish.remote(building, *arguments)):
            finish_version(building, *arguments)

    def finish_shards(self, arguments: Mapping[int, Sequence[Any]], shards: Sequence[Any]) -> None:
        """Call `finish_version` for several shards in all encoders, or in a shard whose files no encoder sees."""
        sent = [
            self.actors[order % len(self.actors)].finish.remote(*each) for order, each in enumerate(arguments.values())
        ]
        for (shard, (building, _, *rest)), finished in zip(arguments.items(), sent, strict=True):
            if not ray.get(finished):
                wait_for_shards([shards[shard].finish.remote(building, *rest)])


def wait_for_shards(calls: Sequence[ray.ObjectRef]) -> None:
    """Wait for calls to shards and raise their errors. A lost shard is no error here; the next search finds it."""
    for call in calls:
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(call)
