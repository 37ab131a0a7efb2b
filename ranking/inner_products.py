"""Finds the largest inner products exactly: the same documents in the same order on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.ranges import ordered

MARGIN = 16
"""Candidates beyond the depth, so that near ties at the cut-off seldom cost a second search."""
CHUNK = 1 << 16
"""Rows of vectors held in float32 at once if they are on disk or in another precision."""
ASKED = 64
"""Queries that are multiplied with a chunk at once."""
GATHERED = 1 << 24
"""Numbers of vectors gathered at once if they must be converted to float32."""
HALF_ULP = 2.0**-24
"""Relative error of one float32 operation."""

Vectors = NDArray[np.float32] | NDArray[np.float16]
Candidates = Callable[[NDArray[np.float32], int], tuple[NDArray[np.float32], NDArray[np.int64]]]
"""Finds, for queries [q, d], the best `width` rows by float32 arithmetic: scores and rows [q, width], in any order."""


def inner_products(queries: NDArray[np.float32], vectors: Vectors, rows: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return ⟨query, vector⟩ [q, m] in float64, added up in one fixed order; −inf if the row is −1."""
    products = np.full(rows.shape, -np.inf)
    if not rows.size or not len(vectors):
        return products
    read = _to_read(np.ascontiguousarray(queries, np.float32))
    places = np.ascontiguousarray(rows, np.int64)
    if places.max() >= len(vectors):  # compiled code would read beyond the vectors
        raise IndexError(f"there is no vector {places.max()}, only {len(vectors)}")
    if vectors.dtype == np.float32 and vectors.flags.c_contiguous:
        _multiply(read, _to_read(np.asarray(vectors, np.float32)), places, products)
        return products
    step = max(1, GATHERED // (rows.shape[1] * max(1, queries.shape[1])))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        wanted = places[part]
        gathered = np.ascontiguousarray(vectors[np.maximum(wanted, 0).ravel()], np.float32)
        numbers = np.where(wanted < 0, -1, np.arange(wanted.size).reshape(wanted.shape))
        _multiply(read[part], _to_read(gathered), numbers, products[part])
    return products


def _to_read(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a read-only view: Numba compiles again for writable arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(nogil=True, cache=True)
def _multiply(queries, vectors, rows, products):  # type: ignore[no-untyped-def]  # pragma: no cover
    # A product of two float32 is exact in float64; four sums in parallel keep the adder busy.
    whole = queries.shape[1] - queries.shape[1] % 4
    for query in range(rows.shape[0]):
        left = queries[query]
        for column in range(rows.shape[1]):
            if rows[query, column] < 0:
                continue
            right = vectors[rows[query, column]]
            first = second = third = fourth = 0.0
            for index in range(0, whole, 4):
                first += np.float64(left[index]) * np.float64(right[index])
                second += np.float64(left[index + 1]) * np.float64(right[index + 1])
                third += np.float64(left[index + 2]) * np.float64(right[index + 2])
                fourth += np.float64(left[index + 3]) * np.float64(right[index + 3])
            for index in range(whole, left.shape[0]):
                first += np.float64(left[index]) * np.float64(right[index])
            products[query, column] = (first + second) + (third + fourth)


def max_norm(vectors: Vectors) -> float:
    """Return the largest ‖v‖₂.

    Raises:
        FloatingPointError: if a number isn't finite.
    """
    norm = 0.0
    for chunk in chunks(vectors):
        norm = max(norm, float(np.sqrt(np.einsum("nd,nd->n", chunk, chunk, dtype=np.float64).max(initial=0.0))))
        if not np.isfinite(norm) or np.isnan(chunk).any():
            raise FloatingPointError("the ranker returned vectors that are not finite")
    return norm


def exact_topk(
    queries: NDArray[np.float32], vectors: Vectors, depth: int, norm: float, candidates: Candidates | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the rows of each query's largest inner products, and these, [q, depth]; of equal ones the lower row first.

    −1 and −inf follow if there are fewer rows.

    float32 arithmetic, which differs from machine to machine, proposes a few more candidates than needed, and
    float64 decides among them. A row that was not proposed has a product of at most the lowest proposed one plus the
    rounding error γ_d·‖q‖·‖v‖, γ_d = d·u / (1 − d·u) (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); a
    query whose last result is not above that is searched again, among all rows that can reach it.

    Args:
        norm: the `max_norm` of the vectors.
        candidates: proposes rows. None uses `topk_float32` of the vectors.
    """
    count, width = len(vectors), depth + MARGIN
    if not len(queries) or not depth or width >= count:
        everything = np.broadcast_to(np.arange(count), (len(queries), count))
        return ordered(everything, inner_products(queries, vectors, everything), depth)
    approximate, proposed = candidates(queries, width) if candidates else topk_float32(queries, vectors, width)
    rows, products = ordered(proposed, inner_products(queries, vectors, proposed), depth)
    share = queries.shape[1] * HALF_ULP
    error = 1.01 * share / (1 - share) * norm * np.linalg.norm(queries.astype(np.float64), axis=1)
    error += queries.shape[1] * np.finfo(np.float32).tiny  # products too small for float32
    unsure = np.flatnonzero(products[:, -1] <= approximate.min(axis=1) + error)
    for start in range(0, len(unsure), ASKED):
        some = unsure[start : start + ASKED]
        within = _reaching(queries[some], vectors, products[some, -1] - error[some])
        for query, reaching in zip(some, within, strict=True):
            again = inner_products(queries[[query]], vectors, reaching[None])
            (rows[query],), (products[query],) = ordered(reaching[None], again, depth)
    return rows, products


def topk_float32(
    queries: NDArray[np.float32], vectors: Vectors | Tensor, width: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the best `width` rows by float32 arithmetic, in any order: scores and rows [q, width].

    It uses torch's product and selection: faiss's flat index takes two to nine times as long on a core, depending on
    the number of queries.

    Args:
        vectors: [n, d], n ≥ `width`; a tensor stays on its device, e.g. a GPU.
    """
    device = vectors.device if isinstance(vectors, Tensor) else torch.device("cpu")
    placed = _tensor(queries).to(device)
    scores = torch.zeros(len(queries), 0, device=device)
    rows = torch.zeros(len(queries), 0, dtype=torch.int64, device=device)
    # One buffer for all products: glibc keeps memory below small results, which was a matrix for every part.
    scratch = torch.empty(ASKED * min(CHUNK, len(vectors)), device=device)
    start = 0
    with _every_bit():
        for chunk in vectors.split(CHUNK) if isinstance(vectors, Tensor) else map(_tensor, chunks(vectors)):
            met = scratch[: ASKED * len(chunk)].view(ASKED, len(chunk))
            of_chunk = [
                torch.mm(part, chunk.T, out=met[: len(part)]).topk(min(width, len(chunk)), 1, sorted=False)
                for part in placed.split(ASKED)
            ]
            scores = torch.cat([scores, torch.cat([top.values for top in of_chunk])], 1)
            rows = torch.cat([rows, start + torch.cat([top.indices for top in of_chunk])], 1)
            if scores.shape[1] > width:
                scores, kept = scores.topk(width, 1, sorted=False)
                rows = rows.gather(1, kept)
            start += len(chunk)
    return scores.cpu().numpy(), rows.cpu().numpy()


def _reaching(queries: NDArray[np.float32], vectors: Vectors, floors: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the rows whose float32 product is at least each query's floor."""
    reaching: list[list[NDArray[np.int64]]] = [[] for _ in queries]
    tensor, start = _tensor(queries), 0
    with _every_bit():
        for chunk in map(_tensor, chunks(vectors)):
            for hits, scores, floor in zip(reaching, (tensor @ chunk.T).numpy(), floors, strict=True):
                hits.append(start + np.flatnonzero(scores >= floor))
            start += len(chunk)
    return [np.concatenate(hits) for hits in reaching]


def chunks(vectors: Vectors) -> Iterator[NDArray[np.float32]]:
    """Yield the vectors in float32, a bounded number at once."""
    for start in range(0, len(vectors), CHUNK):
        yield np.asarray(vectors[start : start + CHUNK], np.float32)


def _tensor(array: NDArray[np.float32]) -> Tensor:
    """Return the array as a tensor; a copy if it is read-only, of which torch would warn."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


@contextmanager
def _every_bit() -> Iterator[None]:
    """Compute float32 products in float32: otherwise they may be rounded to fewer bits, which the bound excludes."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
