"""Defines the base of selectors that compare the ranker's scores of candidates with the positive's."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sampling.selection.selector import KeyedSelector

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class Scored(KeyedSelector):
    """Picks by the current ranker's scores of candidates and of the positive. A subclass defines `keys`."""

    @abstractmethod
    def keys(
        self, scores: NDArray[np.float64], positive: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return a key for each candidate.

        Args:
            scores: float64 [b, m], −inf without a document.
            positive: float64 [b, 1].
            rng: every random draw comes from it.
        """

    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        together = np.concatenate([batch.positives[:, None], documents], axis=1)
        scores = training.score(batch.queries, together).astype(np.float64)
        with np.errstate(invalid="ignore"):  # −inf without a document, which `pick` leaves out
            return self.keys(scores[:, 1:], scores[:, :1], rng)
