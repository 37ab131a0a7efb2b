"""Keeps and searches the vectors of a range of documents: the shard actor.

What reads vectors is imported where vectors come, for an actor that ranks by BM25 has no need of torch.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.owner import OWNER, claim, remove_orphans
from ranking.bm25 import Searched as SearchedByTerms
from ranking.bm25_pieces import search_pieces
from ranking.errors import BadInput
from ranking.ranges import Found

if TYPE_CHECKING:
    from ranking.index import IndexOptions, VectorIndex
    from ranking.index_versions import IndexVersion

CHUNK = 1 << 26
"""Bytes that one replica sends another at once."""


class IndexShard:
    """The versions of one shard, on the disk of the machine that it runs on.

    It takes a folder alone, and every call names its version, so that one that was restarted goes on: what is on its
    disk is opened when it is asked, and of what is not there the answer is None.

    Args:
        folder: of its versions, `INDEX/shards/N`.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        index = self.folder.parent.parent
        if not (index / OWNER).exists():  # on a machine that the trainer is not on
            remove_orphans(index.parent)
            claim(index)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._opened: dict[int, IndexVersion] = {}
        self._opening = threading.Lock()

    def node(self) -> str:
        """The machine that it runs on."""
        return str(ray.get_runtime_context().get_node_id())

    def start(self, step: int, documents: int, dimension: int, options: IndexOptions) -> Path:
        """Make room for a version.

        Returns:
            The folder that `write` and `finish` are told.
        """
        from ranking.index_versions import start_version

        for leftover in self.folder.glob("*.part"):  # one is built at a time
            shutil.rmtree(leftover, ignore_errors=True)
        return start_version(self._place(step), documents, 0, dimension, options)

    def write(self, building: Path, start: int, vectors: NDArray[np.float32]) -> bool:
        """Take vectors from an encoder on another machine; False where the version is lost that they belong to."""
        from ranking.index_versions import DOCUMENTS, write_block

        if not building.exists():
            return False
        write_block(building / DOCUMENTS, start, vectors)
        return True

    def finish(self, building: Path, version: int, step: int, digest: str, options: IndexOptions) -> None:
        """Build FAISS's index where no encoder of this machine has done it; nothing where the version is lost."""
        from ranking.index_versions import finish_version

        if building.exists():
            finish_version(building, self._place(step), version, step, digest, options)

    def has(self, step: int, digest: str) -> bool:
        """Whether the version of these weights is there, and whole."""
        return self._version(step, digest) is not None

    def files(self, step: int) -> tuple[Path, dict[str, int]]:
        """Where a version stands, and the bytes of each of its files; none where it is not there."""
        place = self._place(step)
        return place, {file.name: file.stat().st_size for file in sorted(place.glob("*"))}

    def read(self, step: int, name: str, start: int) -> NDArray[np.uint8]:
        """Up to `CHUNK` bytes of a version's file."""
        return np.fromfile(self._place(step) / name, np.uint8, CHUNK, offset=start)

    def copy(self, step: int, digest: str, source: Any) -> bool:
        """Take a version from another actor of this shard: its files where this machine sees them, else their bytes.

        Returns:
            Whether it is there now: not where the other one was lost meanwhile.

        Raises:
            BadInput: where the disk is full.
        """
        if self.has(step, digest):
            return True
        place = self._place(step)
        building = place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            building.mkdir(parents=True)
            there, files = ray.get(source.files.remote(step))
            if not files:
                return False
            for name, size in files.items():
                try:
                    os.link(there / name, building / name)  # read by both from the same pages of memory
                except OSError:
                    with (building / name).open("wb") as file:
                        for start in range(0, size, CHUNK):
                            ray.get(source.read.remote(step, name, start)).tofile(file)
            shutil.rmtree(place, ignore_errors=True)
            building.rename(place)
        except ray.exceptions.RayError:
            return False
        except OSError as error:
            raise BadInput(f"can't be written ({error.strerror or error})", place, "is there room?") from None
        finally:
            shutil.rmtree(building, ignore_errors=True)
        return self.has(step, digest)

    def topk(self, step: int, digest: str, queries: NDArray[np.float32], depth: int) -> Found | None:
        """The best of its documents, by rows of its own; None where the version is not there."""
        index = self._version(step, digest)
        return None if index is None else index.topk(queries, depth)

    def scores(
        self, step: int, digest: str, queries: NDArray[np.float32], rows: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Inner products with rows of its own; None where the version is not there."""
        index = self._version(step, digest)
        return None if index is None else index.scores(queries, rows)

    def bm25(
        self,
        index: Path,
        held: Mapping[int, range],
        terms: Sequence[NDArray[np.integer]],
        depth: int,
        pairs: NDArray[np.int32],
    ) -> SearchedByTerms:
        """The best by BM25 of some pieces of the documents, and scores of pairs, by rows of the collection.

        Args:
            index: folder of a `PiecedBm25`, which every machine sees or fetches from; postings are mapped from there.
            held: pieces, and the documents of each.
            terms, depth, pairs: of `Bm25Index.find`.
        """
        return search_pieces(index, held, terms, depth, pairs, 1)

    def remove(self, step: int) -> None:
        """Delete a version; who is searching it keeps it until the end."""
        with self._opening:
            self._opened.pop(step, None)
        shutil.rmtree(self._place(step), ignore_errors=True)

    def clear(self) -> None:
        """Delete all that the index keeps on this machine."""
        shutil.rmtree(self.folder.parent.parent, ignore_errors=True)

    def _version(self, step: int, digest: str) -> VectorIndex | None:
        from ranking.index import VectorIndex
        from ranking.index_versions import open_version

        with self._opening:
            version = self._opened.get(step)
            if version is None or version.digest != digest:
                version = open_version(self._place(step))
                if version is None or version.digest != digest:
                    return None
                self._opened[step] = version
        assert isinstance(version.index, VectorIndex)
        return version.index

    def _place(self, step: int) -> Path:
        return self.folder / f"{step:09d}"
