"""Turns grades into the rewards that an adjudicator learns from: numbers between 0 and 1."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyrite.ranking.errors import refuse
from pyrite.ranking.part import Part

STEP = 2.0**-20
"""Rewards are multiples of it: sums of some thousands of them, and of their squares, are then exact in floats, so that
adding and subtracting leaves no rounding error that breaks ties.
"""


class GradeReward(Part):
    """Turns grades into rewards."""

    def __call__(self, grades: ArrayLike, relevant_from: int, highest: int) -> NDArray[np.float64]:
        """Return the rewards of documents: float64 [...], multiples of `STEP`.

        Args:
            grades: int [...].
            relevant_from: lowest grade that counts as relevant.
            highest: highest grade of the scale.
        """
        return np.round(self.of(np.asarray(grades), relevant_from, highest) / STEP) * STEP

    @abstractmethod
    def of(self, grades: NDArray[Any], relevant_from: int, highest: int) -> NDArray[np.float64]:
        """Return the rewards of documents before they are rounded: float64 [...]. The arguments are those of
        `__call__`.
        """


class Binary(GradeReward):
    """1 for a relevant document, 0 for all others (Losada et al. 2016, section 2)."""

    def of(self, grades: NDArray[Any], relevant_from: int, highest: int) -> NDArray[np.float64]:
        return (grades >= relevant_from).astype(np.float64)


class Graded(GradeReward):
    """The document's gain as a share of the highest gain (the paper's section 6 leaves it to later work).

    Args:
        exponential: whether gains are 2^grade - 1 instead of the grades.
    """

    def __init__(self, exponential: bool = False) -> None:
        self.exponential = exponential

    def of(self, grades: NDArray[Any], relevant_from: int, highest: int) -> NDArray[np.float64]:
        refuse(highest < 1, f"the highest grade is {highest}", remedy="graded rewards need a grade above 0")
        gains = np.maximum(grades, 0).astype(np.float64)
        if self.exponential:  # numerator and denominator are divided by 2^highest, which may be beyond floats
            return (np.exp2(gains - highest) - 2.0**-highest) / (1 - 2.0**-highest)
        return gains / highest
