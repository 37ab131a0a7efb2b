"""Counts which negatives a ranker was shown, how often, by which function and how close to the positive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE = np.uint64(1) << np.uint64(32)
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


class ShownNegatives:
    """A row a query, document and function, for a share of the queries: small, however long the training is.

    The columns: `query`, `document` (indices), `function` (its place), `times` that it was shown; `margin`, the sum
    over these of the ranker's score less that of the positive beside it, before the update; `score`, the function's own
    at the last time (nan where it has none).

    Args:
        share: of the queries that are counted, by a hash of their indices; 0 counts none.
    """

    COLUMNS = {
        "query": np.int32, "document": np.int32, "function": np.int32,
        "times": np.int64, "margin": np.float64, "score": np.float32,
    }  # fmt: skip

    def __init__(self, share: float = 0.0) -> None:
        self.share = share
        self.rows: dict[tuple[int, int, int], list[float]] = {}

    def counts(self, queries: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of these queries are counted."""
        with np.errstate(over="ignore"):
            mixed = (np.asarray(queries).astype(np.uint64) + np.uint64(1)) * _MIX[0]
            mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX[1]
        return (mixed >> np.uint64(32)) < np.uint64(self.share * float(WHOLE))

    def add(
        self,
        queries: NDArray[np.integer],
        negatives: NDArray[np.int32],
        assigned: NDArray[np.int64],
        scores: NDArray[np.float32],
        source_scores: NDArray[np.float32],
    ) -> None:
        """Note an update.

        Args:
            queries: int [b].
            negatives: int32 [b, n], −1 for none.
            assigned: int64 [b, n], the place of each one's function.
            scores: float32 [b, 1 + n], the ranker's, the positive's first.
            source_scores: float32 [b, n], the functions'.
        """
        if not self.share:
            return
        rows, columns = np.nonzero((negatives >= 0) & self.counts(queries)[:, None])
        margins = scores[rows, 1 + columns].astype(np.float64) - scores[rows, 0]
        for query, document, function, margin, score in zip(
            np.asarray(queries)[rows].tolist(), negatives[rows, columns].tolist(), assigned[rows, columns].tolist(),
            margins.tolist(), source_scores[rows, columns].tolist(), strict=True,
        ):  # fmt: skip
            row = self.rows.setdefault((query, document, function), [0, 0.0, np.nan])
            row[0] += 1
            row[1] += margin
            row[2] = score

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Each column [rows], sorted by query, document and function."""
        table = [(*key, *self.rows[key]) for key in sorted(self.rows)]
        columns = zip(*table, strict=True) if table else [()] * len(self.COLUMNS)
        return {name: np.array(column, self.COLUMNS[name]) for name, column in zip(self.COLUMNS, columns, strict=True)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `arrays`."""
        rows = zip(*(arrays[name].tolist() for name in self.COLUMNS), strict=True)
        self.rows = {tuple(row[:3]): list(row[3:]) for row in rows}
