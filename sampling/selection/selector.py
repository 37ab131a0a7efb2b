"""The base of every selector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sampling.retrieval.function import Offer, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class Selector(ABC):
    """Picks negatives from what a retrieval function offers.

    It sees the ranker's training, so it can ask for the ranker's scores of now.
    """

    @abstractmethod
    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> Offer:
        """`count` negatives for each query of the batch, fewer where the function offers fewer."""


def pick(offer: Offer, keys: NDArray[np.floating], count: int) -> Offer:
    """The `count` documents of each row with the highest keys; what is not there (−1) comes last.

    Equal keys stand in the offer's order.
    """
    keys = np.where(offer.documents >= 0, keys, -np.inf)
    best = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    return Offer(np.take_along_axis(offer.documents, best, 1), np.take_along_axis(offer.scores, best, 1))
