"""Defines the points that a study compares: combinations of overrides, with intervals to draw from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pyrite.cluster.config.override import is_within, key_of, values_by_key


@dataclass(frozen=True)
class Interval:
    """A range of numbers to draw from: `interval(low, high)`, with `tag(log, …)` on a log scale.

    Args:
        log: whether numbers are drawn on a log scale.
        whole: whether it holds only whole numbers, including its ends.
    """

    low: float
    high: float
    log: bool
    whole: bool

    def at(self, share: float) -> float | int:
        """Return the value at `share` (0 to 1) of the range. Whole numbers have equal shares of it."""
        margin = 0.5 if self.whole else 0.0
        scaled, back = (math.log, np.exp) if self.log else (float, float)
        low, high = scaled(self.low - margin), scaled(self.high + margin)
        value = float(back(low + share * (high - low)))
        if self.whole:
            return min(max(round(value), math.ceil(self.low)), math.floor(self.high))
        return float(f"{value:.6g}")


@dataclass(frozen=True)
class Point:
    """One combination of swept values, and intervals to draw from.

    Args:
        overrides: Hydra overrides, no two with the same key.
        intervals: the intervals by key.
        swept: the keys that the study varies, at this point or another.
        label: what the user calls the method; None without a label.
        searched: the keys of overrides that a search chooses.
    """

    overrides: tuple[str, ...]
    intervals: tuple[tuple[str, Interval], ...]
    swept: tuple[str, ...] = ()
    label: str | None = None
    searched: tuple[str, ...] = ()

    @cached_property
    def texts(self) -> dict[str, str]:
        """The overrides by key."""
        return {key_of(text): text for text in self.overrides}

    @cached_property
    def values(self) -> dict[str, str]:
        """The values that the overrides give, by key."""
        return values_by_key(self.overrides)

    @property
    def drawn(self) -> list[str]:
        """The keys of its intervals."""
        return [key for key, _ in self.intervals]

    def keys_within(self, outer: Sequence[str]) -> tuple[str, ...]:
        """Return the keys of overrides that are some keys, or below them."""
        return tuple(key for key in self.texts if is_within(key, outer))

    def with_options(self, applies: Callable[[str], bool]) -> Point:
        """Return the point with the overrides and intervals of those keys that apply."""
        overrides = tuple(text for text in self.overrides if applies(key_of(text)))
        return replace(self, overrides=overrides, intervals=tuple(pair for pair in self.intervals if applies(pair[0])))

    def labelled_with(self, keys: Sequence[str]) -> Point:
        """Return the point with the values of some keys behind its label, if it has one: "hard · in_batch+bm25"."""
        if self.label is None:
            return self
        values = [self.values[key].strip("[]").replace(",", "+") for key in keys if key in self.values]
        return replace(self, label=" · ".join([self.label, *values]))

    def at(self, shares: Sequence[float]) -> tuple[str, ...]:
        """Return the values of the intervals at these shares, as overrides."""
        return tuple(
            f"{key}={interval.at(share)}" for (key, interval), share in zip(self.intervals, shares, strict=True)
        )
