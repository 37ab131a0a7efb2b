"""Builds one version of an index: encoder actors share its blocks among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import get_current_placement_group

from cluster.index.corpus import Corpus, Size
from cluster.index.encoder import Encoder
from cluster.index.errors import unwrapped
from cluster.index.folder import WEIGHTS, IndexFolder, Publication
from cluster.telemetry.actor_names import own_name, unique
from ranking.index import IndexOptions
from ranking.index_versions import (
    DOCUMENTS,
    QUERIES,
    IndexVersion,
    finish_version,
    open_version,
    start_version,
    write_block,
)

LOSSES = 3
"""How often a block is done again whose encoder dies over it; after that the block itself is to blame."""


@dataclass(frozen=True)
class EncoderOptions:
    """How many actors encode, and what each of them takes. The vectors depend on none of it but `cpu` and `gpu`.

    Args:
        encoders: actors.
        cpu: cores of each, or the share of one; torch has as many threads.
        gpu: GPUs of each, or the share of one.
        spread: over machines, where they take what is free and not their share of a trial's placement group.
    """

    encoders: int = 1
    cpu: float = 1
    gpu: float = 0.0
    spread: bool = False

    @property
    def threads(self) -> int:
        """Of torch, in each."""
        return max(1, int(self.cpu))


@dataclass(frozen=True)
class Block:
    """Texts that one encoder takes at once, and the file that their vectors belong in."""

    start: int
    stop: int
    queries: bool
    path: Path


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
        made = (corpus, options.threads, options.gpu > 0)
        names = [unique(f"{own_name('index')}:encoder-{number}") for number in range(options.encoders)]
        # Those in a placement group stay there.
        apart = {"scheduling_strategy": "SPREAD"} if options.spread and get_current_placement_group() is None else {}
        self.actors: list[Any] = [actor.options(name=name, **apart).remote(*made) for name in names]
        self._arriving: dict[ray.ObjectRef, Any] = {}

    def measure(self, weights: ray.ObjectRef, digest: str) -> Size:
        """What there is to encode, with these weights, by the first encoder to say so."""
        self._arriving = {actor.size.remote(weights, digest): actor for actor in self.actors}
        (first, *_), _ = ray.wait(list(self._arriving))
        size: Size = ray.get(first)
        return size

    def blocks(self, rows: int, queries: bool, path: Path) -> list[Block]:
        """The blocks of so many rows, in order."""
        starts = range(0, rows, self.size)
        return [Block(start, min(start + self.size, rows), queries, path) for start in starts]

    def encode(self, weights: ray.ObjectRef, digest: str, blocks: Sequence[Block]) -> None:
        """Have every block encoded and written; an encoder that is done with one takes the next.

        One that the cluster has no room for yet takes its first block when it has come, if any is left.

        Raises:
            ray.exceptions.ActorDiedError: where encoders die over the same block again and again.
        """
        waiting = deque(blocks)
        running: dict[ray.ObjectRef, tuple[Any, Block]] = {}
        while waiting or running:
            (done, *_), _ = ray.wait([*running, *(self._arriving if waiting else ())])
            if done in running:
                actor, block = running.pop(done)
                if (vectors := ray.get(done)) is not None:  # it does not see this machine's folder
                    write_block(block.path, block.start, vectors)
            else:
                actor = self._arriving.pop(done)
                ray.get(done)
            if waiting:
                block = waiting.popleft()
                order = actor.encode.remote(weights, digest, block.start, block.stop, block.queries, str(block.path))
                running[order] = actor, block

    def finish(self, building: Path, *arguments: Any) -> None:
        """Have `finish_version` done by an encoder: what builds FAISS's index must not hold up readers."""
        if not ray.get(self.actors[0].finish.remote(building, *arguments)):
            finish_version(building, *arguments)


class IndexBuild:
    """Builds versions, one at a time.

    Args:
        corpus: what is encoded.
        options: of the FAISS index.
        encoders: how many actors encode, and with what.
        block: texts that an encoder takes at once.
    """

    def __init__(self, corpus: Corpus, options: IndexOptions, encoders: EncoderOptions, block: int) -> None:
        self.options, self.pool = options, EncoderPool(corpus, encoders, block)

    def __call__(self, folder: IndexFolder, publication: Publication, version: int) -> IndexVersion:
        """The version of some published weights, finished and opened.

        Args:
            folder: where it will stand, and where the weights are.
            publication: the weights.
            version: its number.

        Raises:
            BadInput: where the disk is full, or FAISS can't build the index.
        """
        content, digest, pool = folder.weights(publication), publication.digest, self.pool
        weights = ray.put(content)
        with unwrapped():
            size = pool.measure(weights, digest)
            place = folder.place(publication.step)
            building = start_version(place, size.documents, size.queries, size.dimension, self.options)
            queries = pool.blocks(size.queries, True, building / QUERIES)
            pool.encode(weights, digest, [*pool.blocks(size.documents, False, building / DOCUMENTS), *queries])
            content.tofile(building / WEIGHTS)
            pool.finish(building, place, version, publication.step, digest, self.options)
        finished = open_version(place)
        if finished is None:
            raise RuntimeError(f"{place} was finished and can't be opened")
        return finished
