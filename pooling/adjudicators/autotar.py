"""Judges what a classifier of texts scores highest, in growing batches, from nothing but the topic's text (AutoTAR)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.text_learning import TextLearning
from pooling.rewards import Reward
from ranking.errors import BadInput


class AutoTar(TextLearning):
    """AutoTAR (Cormack and Grossman 2015, "Autonomy and reliability of continuous active learning for
    technology-assisted review").

    Each training takes some documents for not relevant that chance draws from those nobody judged, anew each time; the
    first batch is one document, and each has a tenth more than the one before, rounded up.

    Args:
        presumed: documents drawn for a training; never more than half of those that wait, as a topic's pool is no
            collection of millions, where hardly any document is relevant.
        regularization, reward: as `TextLearning` has them.

    Raises:
        BadInput: where an option is out of range.
    """

    def __init__(self, presumed: int = 100, regularization: float = 10.0, reward: Reward | None = None) -> None:
        super().__init__(regularization, reward)
        if presumed < 0:
            raise BadInput(f"presumed is {presumed}", remedy="give 0 or more documents")
        self.most_presumed = presumed

    def next_size(self, size: int) -> int:
        return size + (size + 9) // 10

    def presumed(self, open_documents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        count = min(self.most_presumed, len(open_documents) // 2)
        return np.sort(rng.choice(open_documents, count, replace=False))
