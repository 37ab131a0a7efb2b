"""Builds, searches and repairs versions of an index whose documents are divided among shards."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.calls import CLOSE_TIMEOUT_S, MAX_RESTARTS, ShardActors, unwrapped
from cluster.index.encoder import CorpusSize
from cluster.index.index_folder import WEIGHTS, IndexFolder, Publication
from cluster.index.shard import IndexShard
from cluster.index.version_build import IndexBuild, IndexSpec
from ranking.index_versions import DOCUMENTS, QUERIES, IndexVersion
from ranking.ranges import merge, shard_ranges, within
from ranking.shards import Searched

SHARDS = "shards.json"
"""First and last document of each shard of a version."""
logger = logging.getLogger(__name__)


class ShardedBuild(IndexBuild):
    """Builds a version on all shards; the version is complete when the last shard has it.

    The serving actor keeps only the vectors of queries and the weights. A shard that restarts on another node, or whose
    files are broken, is built again from these weights.
    """

    def __init__(self, spec: IndexSpec, folder: IndexFolder) -> None:
        super().__init__(spec, folder)
        self.actors: ShardActors | None = None
        self.ranges: Sequence[range] = ()
        self._encoding = threading.Lock()  # builds and repairs use the same encoders
        self._repairing: set[int] = set()

    @property
    def lost(self) -> frozenset[int]:
        return frozenset(self.actors.lost) if self.actors else frozenset()

    def kept(self, size: CorpusSize) -> int:
        return 0

    def fill(self, building: Path, publication: Publication, size: CorpusSize) -> None:
        ranges = shard_ranges(size.documents, self.spec.shards, self.spec.block)
        self._start(ranges)
        with self._encoding:
            queries = self.pool.blocks(range(size.queries), True, building / QUERIES)
            self.pool.encode(publication, queries)
            self._fill(publication, size.dimension)
        (building / SHARDS).write_text(json.dumps([[documents.start, documents.stop] for documents in ranges]))

    def complete(self, version: IndexVersion) -> Searched:
        assert isinstance(version.index, ShardedVersion)
        return replace(version.index, skip=False)

    def opened(self) -> dict[int, IndexVersion]:
        versions = {}
        for step, version in super().opened().items():
            try:
                bounds = json.loads((self.folder.version_path(step) / SHARDS).read_text())
                ranges = [range(*of_shard) for of_shard in bounds]
            except (OSError, ValueError):
                self.folder.remove(step)
                continue
            self._start(ranges)
            versions[step] = self.searchable(version)
        return versions

    def remove(self, step: int) -> None:
        if self.actors:
            self.actors.send_all("remove", step)
        super().remove(step)

    def clear(self) -> None:
        if self.actors:
            calls = self.actors.send_all("clear")
            ray.wait(calls, num_returns=len(calls), timeout=CLOSE_TIMEOUT_S)

    def _start(self, ranges: Sequence[range]) -> None:
        if self.actors is None:
            folders = [(str(self.folder.path / "shards" / str(number)),) for number in range(len(ranges))]
            self.actors, self.ranges = ShardActors(IndexShard, folders, self.pool.nodes()), ranges

    def _fill(self, publication: Publication, dimension: int) -> None:
        """Build the version on every shard that does not have it."""
        actors, pool, options = self.actors, self.pool, self.spec.options
        assert actors is not None
        version, step, digest = publication.version, publication.step, publication.digest
        for _ in range(1 + MAX_RESTARTS):
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
        raise RuntimeError(f"shards {missing} of the index were lost {1 + MAX_RESTARTS} times while they were built")

    def searchable(self, version: IndexVersion) -> IndexVersion:
        assert self.actors is not None

        def repair(shard: int) -> None:
            content = np.fromfile(self.folder.version_path(version.step) / WEIGHTS, np.uint8)
            publication = Publication(version.step, version.version, version.digest, ray.put(content))
            logger.warning("shard %s has lost version %s and builds it again", shard, version.version)
            with self._encoding, unwrapped():
                self._fill(publication, version.queries.shape[1])

        def repair_in_background(shard: int) -> None:
            if shard in self._repairing:
                return
            self._repairing.add(shard)

            def work() -> None:
                try:
                    repair(shard)
                except FileNotFoundError:
                    logger.warning("version %s was deleted before shard %s had it again", version.version, shard)
                finally:
                    self._repairing.discard(shard)

            threading.Thread(target=work, name="repair", daemon=True).start()

        skip = self.spec.on_lost == "skip"
        index = ShardedVersion(
            self.actors, self.ranges, version.step, version.digest, repair, repair_in_background, skip
        )
        return replace(version, index=index)


@dataclass(frozen=True)
class ShardedVersion(Searched):
    """The vectors of one version on all shards.

    Args:
        step, digest: step and weights of the version.
        repair: builds the version on a shard that has lost its disk, and returns when it is built.
        repair_in_background: starts the same, and returns at once.
        skip: answer without shards that are lost, and repair them in the background.
    """

    actors: ShardActors
    ranges: Sequence[range]
    step: int
    digest: str
    repair: Callable[[int], None]
    repair_in_background: Callable[[int], None]
    skip: bool = False

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        replies = self._ask("topk", [(ray.put(queries), depth)] * len(self.ranges))
        ranges = [self.ranges[shard] for shard in replies]
        if not ranges:
            return np.full((len(queries), depth), -1, np.int32), np.full((len(queries), depth), -np.inf, np.float32)
        documents, products = merge(list(replies.values()), ranges, depth)
        return documents, products.astype(np.float32)

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        vectors = ray.put(queries)
        replies = self._ask("scores", [(vectors, within(documents, rows)) for rows in self.ranges])
        return np.max([np.full(documents.shape, -np.inf, np.float32), *replies.values()], axis=0)

    def _ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> dict[int, Any]:
        """Return the replies by shard, without those of skipped shards."""
        calls = [(self.step, self.digest, *each) for each in arguments]
        replies = {}
        for shard, reply in enumerate(self.actors.ask(method, calls)):
            while reply is None and not self.skip:
                if not self.actors.call(shard, "has", self.step, self.digest):
                    self.repair(shard)
                reply = self.actors.call(shard, method, *calls[shard])
            if reply is not None:
                replies[shard] = reply
            elif shard not in self.actors.lost:  # it is back, without the version
                self.repair_in_background(shard)
        return replies
