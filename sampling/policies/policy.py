"""The base of every sampling policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class SamplingPolicy(ABC):
    """Chooses, for every batch, the retrieval function that supplies its negatives (π in Cohen et al. 2019).

    Args:
        chooses: whether it needs several functions to choose among.
    """

    chooses: ClassVar[bool] = True

    def ready(self, functions: list[str]) -> None:
        """Learn the names of the functions, in the order in which `choose` indexes them."""
        name = type(self).__name__
        if self.chooses and len(functions) < 2:
            raise BadInput(
                f"{name} chooses among functions and has only {functions}",
                "function",
                "give a list: function=[random,bm25]",
            )
        if not self.chooses and len(functions) != 1:
            raise BadInput(f"{name} takes one function and has {functions}", "function", "give one: function=bm25")
        self.functions = functions

    @abstractmethod
    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        """An index into the functions for each query of the batch (the same for all in most policies)."""
