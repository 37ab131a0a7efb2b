"""Turns grades into what an adjudicator hears of a judgement: a reward between 0 and 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.errors import BadInput

STEP = 2.0**-20
"""Rewards are multiples of it: sums of some thousands of them, and of their squares, are then exact in floats, so that
what is added and taken away again leaves no rounding behind to break ties."""


class Reward(ABC):
    """Turns grades into rewards."""

    def __call__(self, grades: ArrayLike, relevant_from: int, highest: int) -> NDArray[np.float64]:
        """Rewards of documents: float64 [...], multiples of `STEP`.

        Args:
            grades: int [...].
            relevant_from: lowest grade that counts as relevant.
            highest: highest grade of the scale.
        """
        return np.round(self.of(np.asarray(grades), relevant_from, highest) / STEP) * STEP

    @abstractmethod
    def of(self, grades: NDArray[Any], relevant_from: int, highest: int) -> NDArray[np.float64]:
        """Rewards of documents, before they are rounded: float64 [...], as `__call__`."""


class Binary(Reward):
    """1 for a relevant document, 0 for all others (Losada et al. 2016, section 2)."""

    def of(self, grades: NDArray[Any], relevant_from: int, highest: int) -> NDArray[np.float64]:
        return (grades >= relevant_from).astype(np.float64)


class Graded(Reward):
    """The document's gain as a share of the highest gain (the paper's section 6 leaves it to later work).

    Args:
        exponential: gains are 2^grade - 1 instead of the grades themselves.
    """

    def __init__(self, exponential: bool = False) -> None:
        self.exponential = exponential

    def of(self, grades: NDArray[Any], relevant_from: int, highest: int) -> NDArray[np.float64]:
        if highest < 1:
            raise BadInput(f"the highest grade is {highest}", remedy="graded rewards need a grade above 0")
        gains = np.maximum(grades, 0).astype(np.float64)
        if self.exponential:
            return (np.exp2(gains) - 1) / (2.0**highest - 1)
        return gains / highest
