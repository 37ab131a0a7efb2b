"""Builds versions of an index whose documents are shared out among shards, and mends shards that lost theirs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.build import IndexBuild
from cluster.index.corpus import Corpus, Size
from cluster.index.encoder_options import EncoderOptions
from cluster.index.encoder_pool import LOSSES, hear
from cluster.index.errors import unwrapped
from cluster.index.folder import WEIGHTS, IndexFolder, Publication
from cluster.index.sharded_version import ShardedVersion
from cluster.index.shards import ShardActors, Sharding
from ranking.index import IndexOptions
from ranking.index_versions import DOCUMENTS, QUERIES, IndexVersion, finish_version, start_version
from ranking.query_lists import Listed
from ranking.ranges import shard_ranges
from ranking.shards import Searched

SHARDS = "shards.json"
"""Where each shard of a version begins and ends."""
log = logging.getLogger(__name__)


class ShardedBuild(IndexBuild):
    """Builds a version on all shards: it counts when the last of them has it.

    One replica of each shard is made, and those of the others that are there copy it.

    Beside the actor that serves lie the vectors of queries and the weights alone; a shard is made again from these
    weights where it comes back on another machine, or its files are broken.

    Args:
        sharding: how many, and what to do where one is lost.
        corpus, options, encoders, block, listed: of `IndexBuild`.
    """

    def __init__(
        self,
        sharding: Sharding,
        corpus: Corpus,
        options: IndexOptions,
        encoders: EncoderOptions,
        block: int,
        listed: Listed | None = None,
    ) -> None:
        super().__init__(corpus, options, encoders, block, listed)
        self.sharding, self.block = sharding, block
        self.actors: ShardActors | None = None
        self._nodes: list[str] = []
        self._encoding = threading.Lock()  # a build and a repair ask the same encoders
        self._mended: set[int] = set()  # shards that are being mended behind readers' backs

    @property
    def lost(self) -> frozenset[int]:
        return self.actors.turns.lost if self.actors else frozenset()

    def make(
        self,
        folder: IndexFolder,
        publication: Publication,
        version: int,
        content: NDArray[np.uint8],
        weights: ray.ObjectRef,
        size: Size,
    ) -> IndexVersion:
        ranges = shard_ranges(size.documents, self.sharding.shards, self.block)
        self._start(folder, ranges)
        place, pool, digest = folder.place(publication.step), self.pool, publication.digest
        building = start_version(place, 0, size.queries, size.dimension, self.options)
        with self._encoding:
            pool.encode(weights, digest, pool.blocks(range(size.queries), True, building / QUERIES))
            self._fill(publication, version, weights, size.dimension)
        (building / SHARDS).write_text(json.dumps([[held.start, held.stop] for held in ranges]))
        return self._searched(folder, self.finish(building, place, publication, version, content, finish_version))

    def complete(self, version: IndexVersion) -> Searched:
        assert isinstance(version.index, ShardedVersion)
        return version.index.waiting()

    def opened(self, folder: IndexFolder) -> dict[int, IndexVersion]:
        found = {}
        for step, version in folder.versions().items():
            try:
                ranges = [range(*held) for held in json.loads((folder.place(step) / SHARDS).read_text())]
            except (OSError, ValueError):
                folder.remove(step)
                continue
            self._start(folder, ranges)
            found[step] = self._searched(folder, version)
        return found

    def remove(self, folder: IndexFolder, step: int) -> None:
        if self.actors:
            self.actors.tell("remove", step)
        super().remove(folder, step)

    def clear(self) -> None:
        if self.actors:
            ray.wait(told := self.actors.tell("clear"), num_returns=len(told), timeout=5)

    def _start(self, folder: IndexFolder, ranges: Sequence[range]) -> None:
        if self.actors is None:
            self.actors = ShardActors(folder.place(0).parents[1], ranges, self.pool.nodes(), self.sharding.replicas)

    def _fill(self, publication: Publication, version: int, weights: ray.ObjectRef, dimension: int) -> None:
        """Have every shard make the version that has not got it, and its replicas take it over.

        Raises:
            RuntimeError: where a shard is lost again and again while it does.
        """
        actors, pool = self.actors, self.pool
        assert actors is not None
        step, digest = publication.step, publication.digest
        for _ in range(1 + LOSSES):
            has = actors.living("has", step, digest)
            homes = {}  # the actor of each shard that makes it
            for number in range(len(actors.ranges)):
                there = [place for place in actors.turns.places(number) if place in has]
                if not there:
                    has[number] = actors.call(number, "has", step, digest)
                if not any(has.get(place) for place in actors.turns.places(number)):
                    homes[number] = there[0] if there else number
            if not homes:
                self._copy(step, digest, has)
                return
            nodes = [""] * len(actors.actors)
            for home in homes.values():
                nodes[home] = actors.call(home, "node")
            building: dict[int, Path] = {
                home: actors.call(home, "start", step, len(actors.ranges[number]), dimension, self.options)
                for number, home in homes.items()
            }
            blocks = [
                block
                for number, home in homes.items()
                for block in pool.blocks(actors.ranges[number], False, building[home] / DOCUMENTS, home)
            ]
            pool.encode(weights, digest, blocks, actors.actors, nodes)
            orders = [
                (n, (place, place.with_name(place.name.split(".")[0]), version, step, digest, self.options))
                for n, place in building.items()
            ]
            pool.finish_shards(orders, actors.actors)
        raise RuntimeError(f"shards {list(homes)} of the index were lost {1 + LOSSES} times while they were built")

    def _copy(self, step: int, digest: str, has: dict[int, bool]) -> None:
        """Have replicas that have not got a version copy it from one that has.

        Args:
            step, digest: of the version.
            has: by place, whether an actor that is there has it.
        """
        actors = self.actors
        assert actors is not None
        orders = []
        for place in (place for place, there in has.items() if not there):
            source = next(each for each in actors.turns.places(place % len(actors.ranges)) if has.get(each))
            orders.append(actors.actors[place].copy.remote(step, digest, actors.actors[source]))
        with unwrapped():
            hear(orders)

    def _searched(self, folder: IndexFolder, version: IndexVersion) -> IndexVersion:
        """The version with its shards in the place of vectors."""
        assert self.actors is not None

        def repair(number: int) -> None:
            content = np.fromfile(folder.place(version.step) / WEIGHTS, np.uint8)
            publication = Publication(version.step, version.version, version.digest)
            log.warning("shard %s has lost version %s and builds it again", number, version.version)
            with self._encoding, unwrapped():
                self._fill(publication, version.version, ray.put(content), version.queries.shape[1])

        def behind(number: int) -> None:
            if number in self._mended:
                return
            self._mended.add(number)

            def mend() -> None:
                try:
                    repair(number)
                except FileNotFoundError:
                    log.warning("version %s was deleted before shard %s had it again", version.version, number)
                finally:
                    self._mended.discard(number)

            threading.Thread(target=mend, name="mend", daemon=True).start()

        skip = self.sharding.on_lost == "skip"
        return replace(version, index=ShardedVersion(self.actors, version.step, version.digest, repair, behind, skip))
