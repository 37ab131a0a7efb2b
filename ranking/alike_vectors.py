"""Finds vectors that are equal, so that a search multiplies each once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.alike import group_alike
from pyrite.ranking.kernels import loop
from pyrite.ranking.ranges import Found, ordered

SHARE = 8
"""One in this many rows must repeat another one before each vector is held once, in a copy."""
ROWS = 1 << 14
"""Rows that are compared at once."""


class AlikeVectors:
    """Distinct vectors, in the order of their first rows, and the rows of each.

    Args:
        vectors: float [n, dimension].
        first: int [distinct], the first row of each distinct vector.
        number: int [n], the distinct vector of each row.

    Attributes:
        vectors: float [distinct, dimension].
    """

    def __init__(self, vectors: NDArray[Any], first: NDArray[np.integer], number: NDArray[np.integer]) -> None:
        self.vectors = vectors[first]
        self._sizes = np.bincount(number, minlength=len(first))
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._rows = np.argsort(number, kind="stable")

    @classmethod
    def of(cls, vectors: NDArray[Any]) -> AlikeVectors | None:
        """Return the distinct vectors among some [n, dimension]; None if less than one in `SHARE` repeats another."""
        if not vectors.size:
            return None
        numbers = np.empty(len(vectors), np.uint64)
        rows = np.ascontiguousarray(vectors)
        _digest_rows(rows.view(f"u{rows.itemsize}"), numbers)
        first, number, _ = group_alike(numbers)
        if len(vectors) - len(first) < max(1, len(vectors) // SHARE):
            return None
        parts = (slice(start, start + ROWS) for start in range(0, len(vectors), ROWS))
        equal = all(np.array_equal(rows[part], rows[first[number[part]]]) for part in parts)
        return cls(rows, first, number) if equal else None

    def expand(self, found: Found, depth: int) -> Found:
        """Return the best `depth` rows of each query [q, depth], given its best `depth` distinct vectors.

        A row that is missing has as many vectors before its vector, and each of them has a row before it.
        """
        lines = [self._rows_of(numbers, products, depth) for numbers, products in zip(*found, strict=True)]
        rows, values = np.full((len(lines), depth), -1, np.int32), np.full((len(lines), depth), -np.inf)
        for line, (of_line, products) in enumerate(lines):
            (rows[line],), (values[line],) = ordered(of_line[None], products[None], depth)
        return rows, values

    def _rows_of(
        self, numbers: NDArray[np.integer], products: NDArray[np.float64], depth: int
    ) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
        """Return the rows of a query's vectors that can be among its best `depth`, and their products."""
        numbers = numbers[numbers >= 0]
        reached = int(np.searchsorted(np.cumsum(self._sizes[numbers]), depth))
        kept = products[: len(numbers)] >= products[min(reached, len(numbers) - 1)]  # with all that tie with the last
        numbers, sizes = numbers[kept], np.minimum(self._sizes[numbers[kept]], depth)
        starts = np.repeat(self._starts[numbers] - (np.cumsum(sizes) - sizes), sizes)
        return self._rows[starts + np.arange(len(starts))], np.repeat(products[: len(kept)][kept], sizes)


@loop
def _digest_rows(rows, numbers):  # type: ignore[no-untyped-def]  # pragma: no cover
    for index in range(len(rows)):
        value = np.uint64(0x9E3779B97F4A7C15)
        for column in range(rows.shape[1]):
            value = (value ^ np.uint64(rows[index, column])) * np.uint64(0xBF58476D1CE4E5B9)
            value ^= value >> np.uint64(29)
        numbers[index] = value
