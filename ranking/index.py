"""Searches the vectors of a whole collection by inner product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.alike_vectors import AlikeVectors
from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.faiss_index import bytes_per_vector, fill_index, import_faiss, make_index, on_gpu, write_index
from pyrite.ranking.inner_products import exact_topk, inner_products, max_norm
from pyrite.ranking.ranges import ordered
from pyrite.ranking.torch_topk import CHUNK, Vectors, topk_float32

WIDENED = 2
"""An approximate index is searched for this multiple of the depth, before exact products decide."""


@checked
@dataclass(frozen=True)
class IndexOptions:
    """Options for storing and searching vectors.

    Args:
        factory: a faiss factory string. `Flat` is exact, and the same on every machine; IVF…, HNSW… and PQ… are faster
            or smaller, and miss some documents. With any index, scores are exact inner products of the stored vectors.
        precision: the precision of the vectors: `float32`, or `float16` for half the space.
        memory: `ram`, or `mapped` to leave the vectors on disk, for a corpus larger than memory.
        probes: the cells that an IVF index visits, or the breadth of an HNSW search (efSearch). None keeps faiss's
            default.
        seed: the seed of the sample that an index is trained on.

    Raises:
        BadInput: if an option is out of its range. Whether faiss knows the factory is checked by `check`.
    """

    factory: str = "Flat"
    precision: Literal["float32", "float16"] = "float32"
    memory: Literal["ram", "mapped"] = "ram"
    probes: Annotated[int, AtLeast(1)] | None = None
    seed: Annotated[int, NonNegative] = 0

    def __post_init__(self) -> None:
        refuse(
            not self.factory, "factory is empty", "index.factory", "choose Flat, or a faiss string like IVF1024,Flat"
        )
        refuse(
            self.probes is not None and self.exact,
            "a Flat index has no probes",
            "index.probes",
            "leave it null, or choose an IVF index",
        )

    @property
    def exact(self) -> bool:
        """Whether every search returns the true order."""
        return self.factory == "Flat"

    @property
    def in_full(self) -> bool:
        """Whether vectors are kept in memory as a ranker returns them."""
        return self.memory == "ram" and self.precision == "float32"

    def check(self, dimension: int) -> None:
        """Refuse options for which faiss has no index of vectors of this dimension. A Flat one does not need faiss."""
        if not self.exact:
            make_index(self.factory, dimension, self.probes)


class VectorIndex:
    """Vectors [n, dimension], in memory or mapped, with an index of their largest inner products.

    Args:
        index: faiss's filled index. None for Flat.
        norm: the largest length of a vector.
    """

    def __init__(self, vectors: Vectors, options: IndexOptions, index: Any, norm: float) -> None:
        self.vectors, self.options, self.index, self.norm = vectors, options, index, norm

    @cached_property
    def _alike(self) -> AlikeVectors | None:
        """The distinct vectors, if an exact search would otherwise multiply many that are equal."""
        return AlikeVectors.of(self.vectors) if self.index is None and self.options.memory == "ram" else None

    @property
    def _distinct(self) -> Vectors:
        return self.vectors if self._alike is None else self._alike.vectors

    @cached_property
    def _searched(self) -> Any:
        """The object that is searched: a copy on a GPU if there is one and its memory may be used."""
        if self.options.memory == "mapped":
            return self.vectors if self.index is None else self.index
        if self.index is not None:
            return on_gpu(self.index)
        if torch.cuda.is_available():
            return torch.from_numpy(np.asarray(self._distinct, np.float32)).cuda()
        return self._distinct

    @classmethod
    def build(cls, vectors: Vectors, options: IndexOptions) -> VectorIndex:
        """Build an index of vectors in their stored form.

        Raises:
            BadInput: if faiss can't make such an index, or there are too few vectors for it.
            FloatingPointError: if a number isn't finite.
        """
        norm = max_norm(vectors)
        options.check(vectors.shape[1])
        index = None
        if not options.exact and len(vectors):
            index = make_index(options.factory, vectors.shape[1], options.probes)
            fill_index(index, options.factory, vectors, options.seed)
        return cls(vectors, options, index, norm)

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the best documents of queries [q, dimension], and their inner products: [q, depth] each.

        Of equal products the lower document is first. −1 and −inf follow if there are fewer.
        """
        documents, products = self.topk(queries, depth)
        return documents, products.astype(np.float32)

    def topk(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the result of `search` in float64, with which the results of shards are merged."""
        queries = np.ascontiguousarray(queries, np.float32)
        if self.index is None:
            found = exact_topk(
                queries, self._distinct, depth, self.norm, lambda some, width: topk_float32(some, self._searched, width)
            )
            return found if self._alike is None or not depth else self._alike.expand(found, depth)
        import_faiss()  # for its threads
        _, rows = self._searched.search(queries, max(1, min(WIDENED * depth, len(self))))
        return ordered(rows, inner_products(queries, self.vectors, rows), depth)

    def scores(self, queries: NDArray[np.float32], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return inner products of queries [q, dimension] with documents [q, m]; −inf if the document is −1."""
        return inner_products(queries, self.vectors, documents).astype(np.float32)

    def save(self, path: Path) -> None:
        """Write faiss's index; nothing for Flat, which has only vectors."""
        if self.index is not None:
            write_index(self.index, path)


def footprint(documents: int, dimension: int, options: IndexOptions, queries: int) -> dict[str, int]:
    """Return the bytes that an index needs, before it is built.

    Returns:
        `building`: memory to make a version while another is served; `serving`: memory of a version that is served;
        `swapping`: the maximum at once, while a new version replaces the old; `disk`: the files of one version.
    """
    width = 2 if options.precision == "float16" else 4
    of_vectors, of_queries = documents * dimension * width, queries * dimension * 4
    of_index = 0 if options.exact else documents * bytes_per_vector(options.factory, dimension)
    block = min(documents, CHUNK) * dimension * 4
    kept = of_vectors + of_index if options.memory == "ram" else 0
    streamed = block if options.memory == "mapped" or options.precision == "float16" else 0
    serving = kept + of_queries + streamed
    building = max(serving, of_index + block)
    return {
        "building": building,
        "serving": serving,
        "swapping": serving + building,
        "disk": of_vectors + of_index + of_queries,
    }


def describe_footprint(sizes: dict[str, int]) -> str:
    """Return the bytes as one line of text."""
    shown = {name: f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB" for name, size in sizes.items()}
    return f"{shown['serving']} of memory, {shown['swapping']} while a new version takes over, {shown['disk']} on disk"
