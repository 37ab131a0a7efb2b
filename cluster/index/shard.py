"""Keeps and searches the vectors of a range of documents: the shard actor."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from pyrite.cluster.index.index_folder import OWNER, claim, remove_orphans
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.index_versions import (
    DOCUMENTS,
    IndexVersion,
    finish_version,
    open_version,
    start_version,
    write_block,
)
from pyrite.ranking.ranges import Found


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
        for leftover in self.folder.glob("*.part"):  # one version is built at a time
            shutil.rmtree(leftover, ignore_errors=True)
        return start_version(self.version_path(step), documents, 0, dimension, options)

    def write(self, building: Path, start: int, vectors: NDArray[np.float32]) -> bool:
        """Write vectors from an encoder on another node. Return False if their version is lost."""
        if not building.exists():
            return False
        write_block(building / DOCUMENTS, start, vectors)
        return True

    def finish(self, building: Path, *arguments: Any) -> None:
        """Call `finish_version` if no encoder of this node could; do nothing if the version is lost."""
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
        with self._opening:
            version = self._opened.get(step)
            if version is None or version.digest != digest:
                version = open_version(self.version_path(step))
                if version is None or version.digest != digest:
                    return None
                self._opened[step] = version
        assert isinstance(version.index, VectorIndex)
        return version.index
