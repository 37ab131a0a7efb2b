"""Counts what each retrieval function supplied in a run, and how the ranker scored it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class RunningStats:
    """Mean, deviation and range of values that come in batches."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, values: NDArray[np.floating]) -> None:
        """Count some more values."""
        if values.size:
            exact = values.astype(np.float64)
            self.count += exact.size
            self.total += float(exact.sum())
            self.squares += float(np.square(exact).sum())
            self.low, self.high = min(self.low, float(exact.min())), max(self.high, float(exact.max()))

    def row(self, name: str) -> dict[str, float]:
        """The four figures, named; nan where there was nothing."""
        mean = self.total / self.count if self.count else math.nan
        deviation = math.sqrt(max(self.squares / self.count - mean**2, 0)) if self.count else math.nan
        values = (mean, deviation, self.low, self.high) if self.count else (math.nan,) * 4
        return {f"{name}_{figure}": value for figure, value in zip(("mean", "std", "min", "max"), values, strict=True)}


@dataclass
class FunctionStats:
    """What one function supplied in a run, and how the ranker scored it when it was shown."""

    batches: int = 0
    wanted: int = 0
    missing: int = 0
    fallback: int = 0
    positive: RunningStats = field(default_factory=RunningStats)
    negative: RunningStats = field(default_factory=RunningStats)

    def count(self, batch: FunctionStats) -> None:
        """Add what it supplied to one batch."""
        self.batches += batch.batches
        self.wanted += batch.wanted
        self.missing += batch.missing
        self.fallback += batch.fallback
