"""Keeps and searches the vectors of a range of documents: the shard actor.

Modules that read vectors are imported when vectors arrive, since an actor that ranks by BM25 needs no torch.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.index.calls import CLOSE_TIMEOUT_S, OWNER, claim, remove_orphans, retries, unwrapped
from cluster.telemetry.metrics import own_name, unique
from ranking.bm25 import Searched as SearchedByTerms
from ranking.bm25_pieces import search_pieces
from ranking.ranges import Found

if TYPE_CHECKING:
    from ranking.index import IndexOptions, VectorIndex
    from ranking.index_versions import IndexVersion


class IndexShard:
    """The versions of one shard, on the disk of the actor's node.

    The constructor takes only their folder, `INDEX/shards/N`, and every call names its version. A restarted actor
    therefore opens what is on its disk when it is called, and returns None for a version that is not.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        index = self.folder.parent.parent
        if not (index / OWNER).exists():  # on another node than the trainer
            remove_orphans(index.parent)
            claim(index)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._opened: dict[int, IndexVersion] = {}
        self._opening = threading.Lock()

    def node(self) -> str:
        """Return the id of this actor's node."""
        return str(ray.get_runtime_context().get_node_id())

    def start(self, step: int, documents: int, dimension: int, options: IndexOptions) -> Path:
        """Create the files of a version, and return their folder for `write` and `finish`."""
        from ranking.index_versions import start_version

        for leftover in self.folder.glob("*.part"):  # one version is built at a time
            shutil.rmtree(leftover, ignore_errors=True)
        return start_version(self.version_path(step), documents, 0, dimension, options)

    def write(self, building: Path, start: int, vectors: NDArray[np.float32]) -> bool:
        """Write vectors from an encoder on another node. Return False if their version is lost."""
        from ranking.index_versions import DOCUMENTS, write_block

        if not building.exists():
            return False
        write_block(building / DOCUMENTS, start, vectors)
        return True

    def finish(self, building: Path, *arguments: Any) -> None:
        """Call `finish_version` if no encoder of this node could; do nothing if the version is lost."""
        from ranking.index_versions import finish_version

        if building.exists():
            finish_version(building, *arguments)

    def has(self, step: int, digest: str) -> bool:
        """Return whether the version of these weights exists and is complete."""
        return self._version(step, digest) is not None

    def topk(self, step: int, digest: str, queries: NDArray[np.float32], depth: int) -> Found | None:
        """Return the best documents, by row in this shard, or None if the version does not exist."""
        index = self._version(step, digest)
        return None if index is None else index.topk(queries, depth)

    def scores(
        self, step: int, digest: str, queries: NDArray[np.float32], rows: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Return inner products with rows of this shard, or None if the version does not exist."""
        index = self._version(step, digest)
        return None if index is None else index.scores(queries, rows)

    def bm25(
        self,
        index: Path,
        pieces: Mapping[int, range],
        terms: Sequence[NDArray[np.integer]],
        depth: int,
        pairs: NDArray[np.int32],
    ) -> SearchedByTerms:
        """Return the best documents by BM25 in some pieces, and scores of pairs, by row in the collection.

        Args:
            index: folder of a `PiecedBm25`, which every node sees or fetches; postings are mapped from there.
            pieces: documents of each piece by its number.
            terms, depth, pairs: see `Bm25Index.find`.
        """
        return search_pieces(index, pieces, terms, depth, pairs, 1)

    def remove(self, step: int) -> None:
        """Delete a version. A search that has it open keeps it until the end."""
        with self._opening:
            self._opened.pop(step, None)
        shutil.rmtree(self.version_path(step), ignore_errors=True)

    def clear(self) -> None:
        """Delete all files of the index on this node."""
        shutil.rmtree(self.folder.parent.parent, ignore_errors=True)

    def version_path(self, step: int) -> Path:
        """Return the folder of a step's version."""
        return self.folder / f"{step:09d}"

    def _version(self, step: int, digest: str) -> VectorIndex | None:
        from ranking.index import VectorIndex
        from ranking.index_versions import open_version

        with self._opening:
            version = self._opened.get(step)
            if version is None or version.digest != digest:
                version = open_version(self.version_path(step))
                if version is None or version.digest != digest:
                    return None
                self._opened[step] = version
        assert isinstance(version.index, VectorIndex)
        return version.index


MAX_SEARCHES = 16
"""Searches that a shard runs at once; others wait."""
logger = logging.getLogger(__name__)


class ShardActors:
    """One actor per shard. Ray restarts one that dies, on another node if its own is gone.

    Args:
        folder: folder of the index; each shard keeps its versions in `shards/N`.
        ranges: documents of each shard.
        nodes: preferred nodes, used round-robin.
        log: called with one line when a shard is lost, and when it is back.
        of, meanwhile: the index, and what happens until a lost shard is back, for these lines.

    Attributes:
        lost: shards that did not answer their last call.
    """

    def __init__(
        self,
        folder: Path,
        ranges: Sequence[range],
        nodes: Sequence[str],
        log: Callable[[str], None] = logger.warning,
        of: str = "the index",
        meanwhile: str = "",
    ) -> None:
        self.ranges, self.lost = list(ranges), set[int]()
        self.log, self.of, self.meanwhile = log, of, meanwhile
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
        """Call a method of all shards at once, each with its arguments; a lost shard's reply is None."""
        calls = [getattr(actor, method).remote(*each) for actor, each in zip(self.actors, arguments, strict=True)]
        return [self._receive(shard, call)[1] for shard, call in enumerate(calls)]

    def send_all(self, method: str, *arguments: Any) -> list[ray.ObjectRef]:
        """Call a method of all shards with the same arguments, without waiting."""
        return [getattr(actor, method).remote(*arguments) for actor in self.actors]

    def clear(self) -> None:
        """Delete the files of the index on all nodes, and wait for a while until they are gone."""
        calls = self.send_all("clear")
        ray.wait(calls, num_returns=len(calls), timeout=CLOSE_TIMEOUT_S)

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
