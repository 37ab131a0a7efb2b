"""Builds, searches and repairs versions of an index whose documents are divided among shards."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from pyrite.cluster.index.calls import ShardActors, unwrapped
from pyrite.cluster.index.encoder import CorpusSize
from pyrite.cluster.index.index_folder import WEIGHTS, IndexFolder, Publication
from pyrite.cluster.index.shard import IndexShard
from pyrite.cluster.index.version_build import IndexBuild, IndexSpec
from pyrite.cluster.limits import INDEX_CLOSE_TIMEOUT_S, INDEX_RESTARTS
from pyrite.ranking.index_versions import DOCUMENTS, QUERIES, IndexVersion
from pyrite.ranking.ranges import merge, within
from pyrite.ranking.shards import Searched

logger = logging.getLogger(__name__)


class ShardedBuild(IndexBuild):
    """Builds a version on all shards; the version is complete when the last shard has it.

    The serving actor keeps only the vectors of queries and the weights. A shard that restarts on another node, or whose
    files are broken, is built again from these weights.
    """

    def __init__(self, spec: IndexSpec, folder: IndexFolder) -> None:
        super().__init__(spec, folder)
        self.actors: ShardActors | None = None
        self.ranges = spec.ranges
        self._encoding = threading.Lock()  # builds and repairs use the same encoders
        self._repairing: set[int] = set()

    @property
    def lost(self) -> frozenset[int]:
        return frozenset(self.actors.lost) if self.actors else frozenset()

    def kept(self, size: CorpusSize) -> int:
        return 0

    def fill(self, building: Path, publication: Publication, size: CorpusSize) -> None:
        self._start()
        with self._encoding:
            queries = self.pool.blocks(range(size.queries), True, building / QUERIES)
            self.pool.encode(publication, queries)
            self._fill(publication, size.dimension)

    def complete(self, version: IndexVersion) -> Searched:
        assert isinstance(version.index, ShardedVersion)
        return replace(version.index, skip=False)

    def opened(self) -> dict[int, IndexVersion]:
        versions = super().opened()
        if versions:
            self._start()
        return {step: self.searchable(version) for step, version in versions.items()}

    def remove(self, step: int) -> None:
        if self.actors:
            self.actors.send_all("remove", step)
        super().remove(step)

    def clear(self) -> None:
        if self.actors:
            calls = self.actors.send_all("clear")
            ray.wait(calls, num_returns=len(calls), timeout=INDEX_CLOSE_TIMEOUT_S)

    def _start(self) -> None:
        """Start the shards near the encoders, which have to be started before."""
        if self.actors is None:
            folders = [(str(self.folder.path / "shards" / str(number)),) for number in range(len(self.ranges))]
            self.actors = ShardActors(IndexShard, folders, self.pool.nodes())

    def _fill(self, publication: Publication, dimension: int) -> None:
        """Build the version on every shard that does not have it."""
        actors, pool, options = self.actors, self.pool, self.spec.options
        assert actors is not None
        version, step, digest = publication.version, publication.step, publication.digest
        for _ in range(1 + INDEX_RESTARTS):
            has = actors.ask("has", [(step, digest)] * len(self.ranges))
            missing = [
                shard
                for shard, present in enumerate(has)
                if not (actors.call(shard, "has", step, digest) if present is None else present)
            ]
            if not missing:
                return
            nodes = {shard: actors.call(shard, "node") for shard in missing}
            building: dict[int, Path] = {
                shard: actors.call(shard, "start", step, len(self.ranges[shard]), dimension, options)
                for shard in missing
            }
            blocks = [
                block
                for shard in missing
                for block in pool.blocks(self.ranges[shard], False, building[shard] / DOCUMENTS, shard)
            ]
            pool.encode(publication, blocks, actors.actors, nodes)
            arguments: dict[int | None, Sequence[Any]] = {
                shard: (path, path.with_name(path.name.split(".")[0]), version, step, digest, options)
                for shard, path in building.items()
            }
            pool.finish(arguments, actors.actors)
        raise RuntimeError(f"shards {missing} of the index were lost {1 + INDEX_RESTARTS} times while they were built")

    def searchable(self, version: IndexVersion) -> IndexVersion:
        return replace(version, index=ShardedVersion(self, version, self.spec.on_lost == "skip"))

    def repair(self, version: IndexVersion, shard: int) -> None:
        """Build a version on a shard that has lost its disk."""
        content = np.fromfile(self.folder.version_path(version.step) / WEIGHTS, np.uint8)
        publication = Publication(version.step, version.version, version.digest, ray.put(content))
        logger.warning("shard %s has lost version %s and builds it again", shard, version.version)
        with self._encoding, unwrapped():
            self._fill(publication, version.queries.shape[1])

    def repair_in_background(self, version: IndexVersion, shard: int) -> None:
        """Start `repair`, unless the shard is being repaired."""

        def work() -> None:
            try:
                self.repair(version, shard)
            except FileNotFoundError:
                logger.warning("version %s was deleted before shard %s had it again", version.version, shard)
            finally:
                self._repairing.discard(shard)

        if shard not in self._repairing:
            self._repairing.add(shard)
            threading.Thread(target=work, name="repair", daemon=True).start()


@dataclass(frozen=True)
class ShardedVersion(Searched):
    """The vectors of one version on all shards.

    Args:
        skip: answer without shards that are lost, and repair them in the background.
    """

    build: ShardedBuild
    version: IndexVersion
    skip: bool

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        replies = self._ask("topk", [(ray.put(queries), depth)] * len(self.build.ranges))
        ranges = [self.build.ranges[shard] for shard in replies]
        if not ranges:
            return np.full((len(queries), depth), -1, np.int32), np.full((len(queries), depth), -np.inf, np.float32)
        documents, products = merge(list(replies.values()), ranges, depth)
        return documents, products.astype(np.float32)

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        vectors = ray.put(queries)
        replies = self._ask("scores", [(vectors, within(documents, rows)) for rows in self.build.ranges])
        return np.max([np.full(documents.shape, -np.inf, np.float32), *replies.values()], axis=0)

    def _ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> dict[int, Any]:
        """Return the replies by shard, without those of skipped shards."""
        actors, weights, replies = self.build.actors, (self.version.step, self.version.digest), {}
        assert actors is not None
        for shard, reply in enumerate(actors.ask(method, [(*weights, *each) for each in arguments])):
            while reply is None and not self.skip:
                if not actors.call(shard, "has", *weights):
                    self.build.repair(self.version, shard)
                reply = actors.call(shard, method, *weights, *arguments[shard])
            if reply is not None:
                replies[shard] = reply
            elif shard not in actors.lost:  # it is back, without the version
                self.build.repair_in_background(self.version, shard)
        return replies
