"""Wraps faiss: factory strings, training, files, threads and GPUs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput
from pyrite.ranking.torch_topk import Vectors, chunks

TRAINED = 1 << 18
"""The maximum number of vectors that centroids and codebooks are learned from."""


def import_faiss() -> Any:
    """Import faiss and give it as many threads as torch has."""
    try:
        import faiss
    except ImportError:
        raise BadInput("faiss is not installed", "index", "pip install 'pyrite-ir[cpu]' or 'pyrite-ir[gpu]'") from None
    faiss.omp_set_num_threads(torch.get_num_threads())  # for the calling thread only, so each time
    return faiss


def make_index(factory: str, dimension: int, probes: int | None) -> Any:
    """Make an empty index by inner product.

    Args:
        probes: nprobe of an IVF index or efSearch of a graph. None keeps faiss's default.

    Raises:
        BadInput: if faiss is missing or can't make such an index of this dimension, or the index has no probes.
    """
    faiss = import_faiss()
    try:
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise BadInput(
            f"faiss makes no index {factory!r} of {dimension} dimensions ({_reason(error)})",
            "function.dense.index.factory",
            "choose Flat, IVF1024,Flat, HNSW32 or another of faiss's factory strings",
        ) from None
    set_probes(index, factory, probes)
    return index


def set_probes(index: Any, factory: str, probes: int | None) -> None:
    """Set how far each search looks."""
    if probes is None:
        return
    faiss = import_faiss()
    try:
        faiss.ParameterSpace().set_index_parameter(index, "nprobe" if "IVF" in factory else "efSearch", probes)
    except RuntimeError:
        raise BadInput(
            f"{factory!r} has nothing to probe", "index.probes", "leave it null, or choose an IVF or HNSW index"
        ) from None


def fill_index(index: Any, factory: str, vectors: Vectors, seed: int) -> None:
    """Train an empty index on a sample and add all vectors.

    A graph is built on one thread, because its links depend on the order in which vectors arrive.

    Raises:
        BadInput: if there are too few vectors for its cells or codes.
    """
    faiss = import_faiss()
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(vectors), min(len(vectors), TRAINED), replace=False))
    try:
        index.train(np.asarray(vectors[rows], np.float32))
        if any(graph in factory for graph in ("HNSW", "NSG")):
            faiss.omp_set_num_threads(1)
        for chunk in chunks(vectors):
            index.add(np.ascontiguousarray(chunk))
    except RuntimeError as error:
        raise BadInput(
            f"{factory!r} can't be built from {len(vectors)} vectors ({_reason(error)})",
            "function.dense.index.factory",
            "choose Flat, or fewer cells",
        ) from None


def write_index(index: Any, path: Path) -> None:
    """Write the filled index to a file."""
    import_faiss().write_index(index, str(path))


def read_index(path: Path, factory: str, probes: int | None, mapped: bool) -> Any:
    """Read an index that `write_index` wrote, into memory or mapped.

    Raises:
        RuntimeError: if the file isn't a whole index.
    """
    faiss = import_faiss()
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
    set_probes(index, factory, probes)
    return index


def on_gpu(index: Any) -> Any:
    """Return a copy on the first GPU; the index itself if faiss has no GPU, or none for this kind (a graph)."""
    faiss = import_faiss()
    if not getattr(faiss, "get_num_gpus", int)():
        return index
    try:
        return _OnGpu(faiss.StandardGpuResources(), index)
    except RuntimeError:
        return index


class _OnGpu:
    """An index on a GPU, with the resources that must live as long."""

    def __init__(self, resources: Any, index: Any) -> None:
        self.resources, self.index = resources, import_faiss().index_cpu_to_gpu(resources, 0, index)

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        scores, rows = self.index.search(queries, depth)
        return scores, rows


def bytes_per_vector(factory: str, dimension: int) -> int:
    """Return the approximate bytes that an index needs per vector: its code, its id and its links."""
    index = make_index(factory, dimension, None)
    try:
        return int(index.sa_code_size()) + 8
    except RuntimeError:  # a graph: the vector, and links on the ground level and some above
        links = re.search(r"(?:HNSW|NSG)(\d+)", factory)
        return 4 * dimension + int(4 * 2.2 * int(links[1] if links else 32)) + 12


def _reason(error: RuntimeError) -> str:
    """Return faiss's message without the line of its source."""
    text = str(error).split(": ", 1)[-1] if "Error" in str(error) else str(error)
    return " ".join(text.replace("Error: ", "").split())
