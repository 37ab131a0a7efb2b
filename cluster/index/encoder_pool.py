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

from pyrite.cluster.index.encoder import CorpusSize, IndexEncoder, PreparedCorpus, TextBlock
from pyrite.cluster.index.index_folder import Publication
from pyrite.cluster.limits import INDEX_RESTARTS
from pyrite.cluster.telemetry.metrics import own_name, unique
from pyrite.ranking.index_versions import finish_version, write_block


@dataclass(frozen=True)
class EncoderOptions:
    """Number and resources of the encoder actors.

    Only `cpu`, `gpu` and `precision` can change the vectors.

    Args:
        cpu: cores per actor, or a share of one; torch uses as many threads.
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


def next_block(waiting: dict[str, deque[TextBlock]], node: str) -> TextBlock:
    """Remove and return the next block whose file is on `node`, or on the node with the most blocks if it has none."""
    chosen = node if node in waiting else max(waiting, key=lambda name: len(waiting[name]))
    block = waiting[chosen].popleft()
    if not waiting[chosen]:
        del waiting[chosen]
    return block


def _by_node(blocks: Sequence[TextBlock], nodes: Mapping[int, str] | None) -> dict[str, deque[TextBlock]]:
    """Return blocks by the node of their shard; "" if there are no shards."""
    waiting: dict[str, deque[TextBlock]] = {}
    for block in blocks:
        node = nodes[block.shard] if nodes and block.shard is not None else ""
        waiting.setdefault(node, deque()).append(block)
    return waiting


class _Sent:
    """Vectors that this process hands on: to the file of a block, or to the actor of its shard.

    Args:
        most: calls that wait at once, which bounds what waits in the object store.
    """

    def __init__(self, shards: Sequence[Any], most: int) -> None:
        self.shards, self.most = shards, most
        self.calls: list[ray.ObjectRef] = []

    def write(self, block: TextBlock, vectors: ray.ObjectRef) -> None:
        """Write the vectors of a block."""
        if block.shard is None:
            write_block(block.path, block.row, ray.get(vectors))
            return
        self.calls.append(self.shards[block.shard].write.remote(block.path.parent, block.row, vectors))
        if len(self.calls) > self.most:
            ready, self.calls = ray.wait(self.calls, num_returns=len(self.calls) // 2)
            wait_for_shards(ready)


class EncoderPool:
    """Encoder actors, which read `size` texts per block. Ray restarts one that dies and repeats its block."""

    def __init__(self, corpus: PreparedCorpus, options: EncoderOptions, size: int) -> None:
        self.size = size
        actor = ray.remote(
            num_cpus=options.cpu, num_gpus=options.gpu, max_restarts=-1, max_task_retries=INDEX_RESTARTS
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

    def measure(self, publication: Publication) -> CorpusSize:
        """Return what must be encoded with published weights, as the first encoder to start reports it."""
        of_weights = publication.weights, publication.digest
        self._arriving = {actor.size.remote(*of_weights): actor for actor in self.actors}
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
        publication: Publication,
        blocks: Sequence[TextBlock],
        shards: Sequence[Any] = (),
        nodes: Mapping[int, str] | None = None,
    ) -> None:
        """Encode and write all blocks; an encoder that is finished with one block gets the next.

        An encoder that the cluster has no room for yet gets its first block when it starts, if any is left. Vectors
        of a shard on another node travel from the encoder to the shard, and not through this process.

        Args:
            shards, nodes: actors of the shards and their nodes, by `TextBlock.shard`.

        Raises:
            ray.exceptions.ActorDiedError: if encoders die repeatedly on the same block.
        """
        waiting, sent = _by_node(blocks, nodes), _Sent(shards, 2 * len(self.actors))
        arriving = dict(self._arriving)
        free = [actor for actor in self.actors if actor not in arriving.values()]
        running: dict[ray.ObjectRef, tuple[Any, TextBlock, ray.ObjectRef]] = {}
        while waiting or running:
            while free and waiting:
                actor = free.pop()
                block = next_block(waiting, self._node(actor) if nodes else "")
                written, vectors = actor.encode.options(num_returns=2).remote(
                    publication.weights, publication.digest, block
                )
                running[written] = actor, block, vectors
            (done, *_), _ = ray.wait([*running, *(arriving if waiting else ())])
            if done in running:
                actor, block, vectors = running.pop(done)
                if not ray.get(done):  # the encoder does not see the file
                    sent.write(block, vectors)
                del vectors
            else:
                actor = arriving.pop(done)
                self._arriving.pop(done, None)
                ray.get(done)
            free.append(actor)
        wait_for_shards(sent.calls)

    def finish(self, arguments: Mapping[int | None, Sequence[Any]], shards: Sequence[Any] = ()) -> None:
        """Call `finish_version` in the encoders, so that building FAISS's index does not delay a search.

        If an encoder does not see the files, their shard does it, or this process for the key None.
        """
        sent = [
            self.actors[order % len(self.actors)].finish.remote(*each) for order, each in enumerate(arguments.values())
        ]
        for (shard, each), finished in zip(arguments.items(), sent, strict=True):
            if ray.get(finished):
                continue
            if shard is None:
                finish_version(*each)
            else:
                wait_for_shards([shards[shard].finish.remote(*each)])


def wait_for_shards(calls: Sequence[ray.ObjectRef]) -> None:
    """Wait for calls to shards and raise their errors. A lost shard is no error here; the next search finds it."""
    for call in calls:
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(call)
