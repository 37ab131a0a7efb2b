"""Judges the documents that a text classifier scores highest, in growing batches, starting from the topic's text
(AutoTAR).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.text_learning import TextLearning
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import NonNegative, Positive, checked


class AutoTar(TextLearning):
    """AutoTAR (Cormack and Grossman 2015, "Autonomy and reliability of continuous active learning for
    technology-assisted review").

    Each training presumes that some unjudged documents, drawn again each time, are not relevant. The first batch is one
    document, and each batch is a tenth larger than the one before, rounded up. It needs the texts of the documents.

    Args:
        presumed: documents drawn for each training; never more than half of the unjudged ones, because a topic's pool
            is no collection of millions with hardly any relevant document.
        reward: how a grade becomes a reward; None is `pyrite.pooling.rewards.Binary`.
    """

    @checked
    def __init__(
        self,
        presumed: Annotated[int, NonNegative] = 100,
        regularization: Annotated[float, Positive] = 10.0,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(regularization, reward)
        self.most_presumed = presumed

    def next_size(self, size: int) -> int:
        return size + (size + 9) // 10

    def presumed(self, open_documents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        count = min(self.most_presumed, len(open_documents) // 2)
        return np.sort(rng.choice(open_documents, count, replace=False))
