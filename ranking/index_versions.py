"""Writes and reads versions of an index on disk: each a folder that is complete or absent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.faiss_index import read_index
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.query_lists import QueryLists
from pyrite.ranking.shards import Searched
from pyrite.ranking.whole_file import sync

FORMAT = 1
DOCUMENTS, QUERIES, FAISS, RECORD = "documents.npy", "queries.npy", "faiss.index", "version.json"
HEADERS = Lock()
"""Held while a header is read: NumPy uses Python's parser, in which threads of Python 3.11 disturb each other."""


@dataclass(frozen=True)
class IndexVersion:
    """A version of an index: the vectors of all documents and queries from one set of weights.

    Args:
        version: the number of the version, from 0.
        step: the trainer's step when these weights were published.
        digest: the `weights_digest` of the weights.
        queries: float32 [queries, dimension], all queries in their order.
        lists: lists of queries that were searched when the version was built. Other queries are searched on demand.
    """

    version: int
    step: int
    digest: str
    index: Searched
    queries: NDArray[np.float32]
    lists: QueryLists | None = None

    def search(
        self, queries: NDArray[np.integer], depth: int, vectors: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the best documents of queries [q], by their vectors of this version or by `vectors` [q, dimension]."""
        if vectors is None and self.lists is not None and (listed := self.lists.of(queries, depth)) is not None:
            return listed
        return self.index.search(self.queries[queries] if vectors is None else vectors, depth)

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return inner products of queries [q] with documents [q, m]; −inf if the document is −1."""
        return self.index.scores(self.queries[queries] if vectors is None else vectors, documents)


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return 64 hex digits that identify a set of weights."""
    content = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        content.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()


def start_version(folder: Path, documents: int, queries: int, dimension: int, options: IndexOptions) -> Path:
    """Create the files of a version that will be in `folder`.

    Returns:
        The folder where it is built, next to `folder` with a temporary name. `write_block` fills its `DOCUMENTS` and
        `QUERIES`, `finish_version` completes it.

    Raises:
        BadInput: if nothing can be written there.
    """
    building = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}.part")
    with _writable(folder):
        building.mkdir()  # without its parents: an index that has ended has deleted them
    create_vectors(building / DOCUMENTS, documents, dimension, options.precision)
    create_vectors(building / QUERIES, queries, dimension)
    return building


def create_vectors(path: Path, rows: int, dimension: int, precision: str = "float32") -> None:
    """Create a file for `rows` vectors, which `write_block` fills."""
    header = {"descr": npy.dtype_to_descr(np.dtype(precision)), "fortran_order": False, "shape": (rows, dimension)}
    with _writable(path), path.open("wb") as file:
        npy.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * dimension * np.dtype(precision).itemsize)


def write_block(path: Path, start: int, vectors: NDArray[np.float32]) -> None:
    """Write vectors into the rows from `start` on.

    Several processes and threads may write blocks of one file at once; no byte of another's block is touched. (A mapped
    file would be written in whole pages, which overlap at the ends of blocks and don't mix on a network's file system.)

    Raises:
        BadInput: if the disk is full, or a number is too large for the file's precision.
        FloatingPointError: if a number isn't finite.
    """
    with _writable(path), path.open("r+b") as file:
        with HEADERS:
            npy.read_magic(file)
            (rows, dimension), _, dtype = npy.read_array_header_1_0(file)
        if start < 0 or start + len(vectors) > rows or vectors.shape[1:] != (dimension,):
            raise ValueError(f"{vectors.shape} from row {start} do not fit {rows} × {dimension}")
        file.seek(start * dimension * dtype.itemsize, os.SEEK_CUR)
        file.write(in_precision(vectors, dtype).tobytes())


def in_precision(vectors: NDArray[np.float32], dtype: np.typing.DTypeLike) -> NDArray[np.float32]:
    """Return the vectors in their stored precision.

    Raises:
        BadInput: if a number is too large for it.
        FloatingPointError: if a number isn't finite.
    """
    if not np.isfinite(vectors).all():
        raise FloatingPointError("the ranker returned vectors that are not finite")
    refuse(
        np.dtype(dtype) == np.float16 and np.abs(vectors).max(initial=0) > np.finfo(np.float16).max,
        "a vector has numbers too large for float16",
        "index.precision",
        "choose float32",
    )
    return np.ascontiguousarray(vectors, dtype)


def finish_version(building: Path, folder: Path, version: int, step: int, digest: str, options: IndexOptions) -> None:
    """Build faiss's index from the written vectors, and give the version its name.

    Args:
        building: the folder of `start_version`, with every block written.
        folder: the version's folder; a version that is already there is replaced.

    Raises:
        BadInput: if faiss can't build it or the disk is full.
    """
    vectors = _vectors(building / DOCUMENTS, mapped=True)
    index = VectorIndex.build(vectors, options)
    with _writable(folder):
        index.save(building / FAISS)
        record = {
            "format": FORMAT, "version": version, "step": step, "digest": digest, "documents": len(vectors),
            "queries": len(_vectors(building / QUERIES, mapped=True)), "dimension": vectors.shape[1],
            "norm": index.norm, "options": asdict(options),
        }  # fmt: skip
        (building / RECORD).write_text(json.dumps(record))
        for file in building.iterdir():
            sync(file)
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)


def open_version(folder: Path) -> IndexVersion | None:
    """Open a finished version; return None if there is none or it is incomplete."""
    try:
        record = json.loads((folder / RECORD).read_text())
        if record["format"] != FORMAT:
            return None
        options = IndexOptions(**record["options"])
        mapped = options.memory == "mapped"
        documents, queries = _vectors(folder / DOCUMENTS, mapped), _vectors(folder / QUERIES, mapped=False)
        dimension = record["dimension"]
        if documents.shape != (record["documents"], dimension) or queries.shape != (record["queries"], dimension):
            return None
        index = None
        if not options.exact and len(documents):
            index = read_index(folder / FAISS, options.factory, options.probes, mapped)
        opened = VectorIndex(documents, options, index, record["norm"])
        return IndexVersion(
            record["version"], record["step"], record["digest"], opened, queries, QueryLists.opened(folder)
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):  # whatever an incomplete file makes readers raise
        return None


def _vectors(path: Path, mapped: bool) -> NDArray[np.float32]:
    """Return the rows of a file, in memory or mapped; an empty file can't be mapped."""
    vectors: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return vectors if mapped and vectors.size else np.array(vectors)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"can't be written ({error.strerror or error})", path, "is there room on the disk?") from None
