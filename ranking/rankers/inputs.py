"""Holds the inputs from which a ranker makes its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.labels import LabelCounts
from pyrite.ranking.rankers.static_folder import Vocabulary


@dataclass(frozen=True)
class RankerInputs:
    """The inputs from which a run's ranker makes its weights; a ranker reads those that it needs.

    Args:
        generator: draws new weights.
        vectors: float32 [vocabulary, dimension], the word vectors to start from; row 0 is padding.
        idf: float32 [vocabulary], the inverse document frequency of each word.
        vocabulary: the words, if they are known.
        labels: the numbers of categories and subcategories, if the ranker reads them.
    """

    generator: torch.Generator
    vectors: NDArray[np.float32] | None = None
    idf: NDArray[np.float32] | None = None
    vocabulary: Vocabulary | None = None
    labels: LabelCounts | None = None

    @property
    def words(self) -> NDArray[np.float32]:
        """The word vectors.

        Raises:
            ValueError: if there are none.
        """
        if self.vectors is None:
            raise ValueError("the ranker reads word vectors, and was given none")
        return self.vectors
