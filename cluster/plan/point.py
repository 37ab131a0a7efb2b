"""Defines what a study compares: combinations of overrides, with intervals that are still to be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A range of numbers to draw from: `interval(low, high)`, with `tag(log, …)` on a log scale.

    Args:
        low, high: its ends.
        log: whether it is drawn from on a log scale.
        whole: whether it holds whole numbers alone, its ends among them: those of `int(…)`, and of options that take
            no others.
    """

    low: float
    high: float
    log: bool
    whole: bool

    def at(self, share: float) -> float | int:
        """The value that lies `share` (0 to 1) of the way; of whole numbers each has its part of the way."""
        low, high = self._ends
        value = float(np.exp(low + share * (high - low))) if self.log else low + share * (high - low)
        if self.whole:
            return min(max(round(value), math.ceil(self.low)), math.floor(self.high))
        return float(f"{value:.6g}")

    @property
    def _ends(self) -> tuple[float, float]:
        beside = 0.5 if self.whole else 0.0
        low, high = self.low - beside, self.high + beside
        return (math.log(low), math.log(high)) if self.log else (low, high)


@dataclass(frozen=True)
class Point:
    """One combination of what is swept: a method, and intervals that are still to be drawn.

    Args:
        overrides: Hydra overrides, no two of the same key.
        intervals: by key.
        swept: keys that the study varies, here or at another point.
    """

    overrides: tuple[str, ...]
    intervals: tuple[tuple[str, Interval], ...]
    swept: tuple[str, ...] = ()

    def at(self, shares: Sequence[float]) -> tuple[str, ...]:
        """What every interval gives at these shares of it, as overrides."""
        return tuple(
            f"{key}={interval.at(share)}" for (key, interval), share in zip(self.intervals, shares, strict=True)
        )


def root_of(override: str) -> str:
    """The first part of an override's key: the option or group that it is about."""
    return key_of(override).split(".", 1)[0]


def key_of(override: str) -> str:
    """The key of an override, without the signs that add or delete it."""
    return override.split("=", 1)[0].lstrip("+~")
