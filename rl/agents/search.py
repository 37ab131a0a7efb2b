"""Searches the parameters of a mixture policy by whole trainings: the base of agents without gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, checked


class Search(ABC):
    """A search in progress. Its proposals depend only on its seed and the returns that it received.

    So a search is resumed by asking and telling again.
    """

    @abstractmethod
    def ask(self) -> NDArray[np.float64]:
        """Return the next generation: the parameters of each candidate [candidates, size]."""

    @abstractmethod
    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        """Receive the mean return of each candidate [candidates] of the last `ask`; 0 for a training that diverged."""

    @abstractmethod
    def result(self) -> NDArray[np.float64]:
        """Return the parameters to keep [size]."""


class PolicySearch(ABC):
    """Searches the parameters of a mixture policy. A subclass holds plain options and starts the search.

    Each candidate trains `seeds` rankers. All candidates of a generation share their seeds, so differences between them
    are not due to chance; the next generation has new seeds, so that no candidate is fitted to a seed.

    Args:
        candidates: candidates per generation.
        seeds: rankers trained per candidate.

    Attributes:
        rule: the rule that it searches, a key of `pyrite.rl.mixture.RULES`.
    """

    rule: ClassVar[str]

    @checked
    def __init__(self, candidates: Annotated[int, AtLeast(2)], seeds: Annotated[int, AtLeast(1)]) -> None:
        self.candidates, self.seeds = candidates, seeds

    @abstractmethod
    def start(self, size: int, generations: int, seed: int, features: Sequence[str] = ()) -> Search:
        """Start a search.

        Args:
            size: number of parameters.
            seed: every random draw comes from it.
            features: names of the features that a linear rule weighs; empty if the rule has no weights.
        """
