"""The base of every objective."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


class Objective(ABC):
    """What a ranker is trained to minimise, given the scores of a positive and its negatives.

    Everywhere, column 0 of `scores` [b, 1 + n] is the positive, the others are negatives, and `present`
    [b, 1 + n] is False where a query fell short of negatives.
    """

    @abstractmethod
    def loss(self, scores: Tensor, present: Tensor) -> Tensor:
        """The mean over the batch. Scalar."""

    @abstractmethod
    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        """P(relevant | query, document) as this objective reads scores. Shape [b, 1 + n].

        Uncertainty sampling asks for it (`sampling.selection.error_reduction`).
        """


def mean_over_present(values: Tensor, present: Tensor) -> Tensor:
    """Mean of `values` where `present`, 0 where nothing is."""
    return values.masked_fill(~present, 0).sum() / present.sum().clamp(min=1)
