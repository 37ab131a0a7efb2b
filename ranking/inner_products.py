"""Finds the largest inner products exactly: the same documents in the same order on every machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pyrite.ranking.ranges import ordered
from pyrite.ranking.torch_topk import ASKED, Vectors, chunks, every_bit, tensor_of, topk_float32

MARGIN = 16
"""Candidates beyond the depth, so that near ties at the cut-off seldom cost a second search."""
GATHERED = 1 << 24
"""Numbers of vectors gathered at once if they must be converted to float32."""
HALF_ULP = 2.0**-24
"""Relative error of one float32 operation."""

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


def _reaching(queries: NDArray[np.float32], vectors: Vectors, floors: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the rows whose float32 product is at least each query's floor."""
    reaching: list[list[NDArray[np.int64]]] = [[] for _ in queries]
    tensor, start = tensor_of(queries), 0
    with every_bit():
        for chunk in map(tensor_of, chunks(vectors)):
            for hits, scores, floor in zip(reaching, (tensor @ chunk.T).numpy(), floors, strict=True):
                hits.append(start + np.flatnonzero(scores >= floor))
            start += len(chunk)
    return [np.concatenate(hits) for hits in reaching]
