"""Searches the parameters of a mixture policy by whole trainings: the base of agents without gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput


class Search(ABC):
    """A search that is going on: what it proposes depends on its seed and on what it was told, and on nothing else.

    So a search is continued by asking and telling again what is known.
    """

    @abstractmethod
    def ask(self) -> NDArray[np.float64]:
        """Return the next generation: the parameters of each candidate [candidates, size]."""

    @abstractmethod
    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        """Take the mean return of each candidate [candidates] that `ask` gave; a training that diverged has 0."""

    @abstractmethod
    def result(self) -> NDArray[np.float64]:
        """The parameters to keep [size]."""


class PolicySearch(ABC):
    """Who searches the parameters of a mixture policy. A subclass holds plain options and starts its search.

    Each candidate trains `seeds` rankers. All candidates of a generation share their seeds, so that they differ by
    what they are and not by chance; the next generation has fresh ones, so that none is fitted to a seed.

    Args:
        candidates: of a generation.
        seeds: rankers that each candidate trains.

    Attributes:
        rule: which of `rl.mixture.RULES` it searches.

    Raises:
        BadInput: where one of them is too small.
    """

    rule: ClassVar[str]

    def __init__(self, candidates: int, seeds: int) -> None:
        for name, value, least in (("candidates", candidates, 2), ("seeds", seeds, 1)):
            if value < least:
                raise BadInput(f"{name} is {value}", f"agent.{name}", f"choose a whole number from {least} up")
        self.candidates, self.seeds = candidates, seeds

    @abstractmethod
    def start(self, size: int, generations: int, seed: int) -> Search:
        """Begin to search.

        Args:
            size: of the parameters.
            generations: that there will be.
            seed: every random draw comes from it.
        """
