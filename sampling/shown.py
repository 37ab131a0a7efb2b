"""Records what a ranker was shown: per function, per update, and per query for a share of the queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.sampling.retrieval.function import RetrievalFunction

WHOLE = np.uint64(1) << np.uint64(32)
EXAMPLES = 3
"""The number of queries whose negatives are always recorded, for a report to show."""
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


@dataclass
class RunningStats:
    """Mean, deviation and range of values that arrive in batches."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, values: NDArray[np.floating]) -> None:
        """Add a batch of values."""
        if values.size:
            exact = values.astype(np.float64)
            self.count += exact.size
            self.total += float(exact.sum())
            self.squares += float(np.square(exact).sum())
            self.low, self.high = min(self.low, float(exact.min())), max(self.high, float(exact.max()))

    def row(self, name: str) -> dict[str, float]:
        """Return the four figures as columns `NAME_mean`, `NAME_std`, `NAME_min`, `NAME_max`; nan without values."""
        mean = self.total / self.count if self.count else math.nan
        deviation = math.sqrt(max(self.squares / self.count - mean**2, 0)) if self.count else math.nan
        values = (mean, deviation, self.low, self.high) if self.count else (math.nan,) * 4
        return {f"{name}_{figure}": value for figure, value in zip(("mean", "std", "min", "max"), values, strict=True)}


@dataclass
class FunctionStats:
    """The negatives that one function supplied in a run, and the ranker's scores of them when they were shown."""

    batches: int = 0
    wanted: int = 0
    missing: int = 0
    fallback: int = 0
    misranked: int = 0
    positive: RunningStats = field(default_factory=RunningStats)
    negative: RunningStats = field(default_factory=RunningStats)

    def count(self, batch: FunctionStats) -> None:
        """Add the counts of one batch."""
        self.batches += batch.batches
        self.wanted += batch.wanted
        self.missing += batch.missing
        self.fallback += batch.fallback


class Trace:
    """Figures of the negatives of each update, one value per step: how hard negatives are while a ranker learns.

    The figures of a step: `positive` and `negative`, mean scores before the update; `misranked`, the share of
    negatives that score at least as high as their positive (nan without negatives); `function`, the index of the
    chosen function, −1 if a batch mixes several; `version` and `age`, the index version that the first chosen function
    with versions ranked by and its age in steps, −1 if no function has versions.
    """

    FIGURES = {
        "positive": np.float32, "negative": np.float32, "misranked": np.float32,
        "function": np.int32, "version": np.int32, "age": np.int32,
    }  # fmt: skip

    def __init__(self) -> None:
        self.steps: list[tuple[float, ...]] = []

    def add(
        self,
        functions: Sequence[RetrievalFunction],
        assigned: NDArray[np.int64],
        negatives: NDArray[np.int32],
        scores: NDArray[np.float32],
    ) -> None:
        """Record a step.

        Args:
            assigned: int64 [b, n], the index of each negative's function, −1 for none.
            negatives: int32 [b, n], −1 for none.
            scores: float32 [b, 1 + n], the ranker's scores, the positive's first.
        """
        present = negatives >= 0
        positives, shown = scores[:, 0], scores[:, 1:]
        chosen, some = np.unique(assigned[assigned >= 0]), present.any()
        versioned = [functions[index] for index in chosen if functions[index].version >= 0]
        self.steps.append((
            float(positives.mean(dtype=np.float64)) if len(positives) else math.nan,
            float(shown[present].mean(dtype=np.float64)) if some else math.nan,
            float((shown >= positives[:, None])[present].mean()) if some else math.nan,
            int(chosen[0]) if len(chosen) == 1 else -1,
            versioned[0].version if versioned else -1,
            versioned[0].age if versioned else -1,
        ))  # fmt: skip

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return each figure by step [steps]."""
        return _columns(self.steps, self.FIGURES)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `arrays`."""
        self.steps = list(zip(*(arrays[name].tolist() for name in self.FIGURES), strict=True))


class ShownNegatives:
    """One row per query, document and function, for a share of the queries: small, however long the training is.

    The columns: `query`, `document` (indices), `function` (index), `times`, the number of times that it was shown;
    `margin`, the sum over these of the ranker's score minus that of the row's positive, before the update; `score`, the
    function's score at the last time (nan if it has none).

    Args:
        share: share of the queries that are recorded, chosen by a hash of their indices; 0 records none.

    Attributes:
        examples: int [n], queries that are recorded in addition.
    """

    COLUMNS = {
        "query": np.int32, "document": np.int32, "function": np.int32,
        "times": np.int64, "margin": np.float64, "score": np.float32,
    }  # fmt: skip

    def __init__(self, share: float = 0.0) -> None:
        self.share = share
        self.examples: NDArray[np.integer] = np.zeros(0, np.int64)
        self.rows: dict[tuple[int, int, int], list[float]] = {}

    def counts(self, queries: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of these queries are recorded as a part of the share."""
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
        """Record an update.

        Args:
            queries: int [b].
            negatives: int32 [b, n], −1 for none.
            assigned: int64 [b, n], the index of each negative's function.
            scores: float32 [b, 1 + n], the ranker's scores, the positive's first.
            source_scores: float32 [b, n], the functions' scores.
        """
        recorded = np.isin(queries, self.examples)
        if self.share:
            recorded |= self.counts(queries)
        if not recorded.any():
            return
        rows, columns = np.nonzero((negatives >= 0) & recorded[:, None])
        margins = scores[rows, 1 + columns].astype(np.float64) - scores[rows, 0]
        for query, document, function, margin, score in zip(
            np.asarray(queries)[rows].tolist(), negatives[rows, columns].tolist(), assigned[rows, columns].tolist(),
            margins.tolist(), source_scores[rows, columns].tolist(), strict=True,
        ):  # fmt: skip
            row = self.rows.setdefault((query, document, function), [0, 0.0, np.nan])
            row[0] += 1
            row[1] += margin
            row[2] = score

    def add_examples(self, queries: NDArray[np.integer]) -> None:
        """Record a few of the training queries as well: the same for every run on these queries.

        Args:
            queries: int [n], the training queries.
        """
        distinct = np.unique(queries)
        middles = (np.arange(EXAMPLES) * 2 + 1) * len(distinct) // (2 * EXAMPLES)
        self.examples = distinct[middles] if len(distinct) else distinct

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return each column [rows], sorted by query, document and function."""
        return _columns([(*key, *self.rows[key]) for key in sorted(self.rows)], self.COLUMNS)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `arrays`."""
        rows = zip(*(arrays[name].tolist() for name in self.COLUMNS), strict=True)
        self.rows = {tuple(row[:3]): list(row[3:]) for row in rows}


def _columns(rows: Sequence[tuple[Any, ...]], kinds: Mapping[str, type]) -> dict[str, NDArray[Any]]:
    """Return rows as one array per column, of the given types."""
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return {name: np.array(column, kinds[name]) for name, column in zip(kinds, columns, strict=True)}
