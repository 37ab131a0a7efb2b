"""Defines objectives over pairs of the positive and one negative."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective, mean_over_present


class PairObjective(Objective):
    """The base of objectives whose probabilities are σ(sigma·(s − s(positive))), those of beating the positive.

    See Burges et al. 2005, equation 3.
    """

    sigma: float = 1.0

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.sigmoid(self.sigma * (scores - scores[:, :1]))


class Pairwise(PairObjective):
    """The base of costs of the difference s(positive) − s(negative), averaged over all pairs of the batch."""

    @abstractmethod
    def cost(self, difference: Tensor) -> Tensor:
        """Return the cost of each difference."""

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        return mean_over_present(self.cost(scores[:, :1] - scores[:, 1:]), block.present[:, 1:])


class Hinge(Pairwise):
    """The hinge loss of each pair: max(0, margin − (s(positive) − s(negative))).

    Args:
        margin: the difference from which a pair costs nothing.
    """

    def __init__(self, margin: float = 1.0) -> None:
        self.margin = margin

    def cost(self, difference: Tensor) -> Tensor:
        return F.relu(self.margin - difference)


class RankNet(Pairwise):
    """The logistic loss of each pair: log(1 + e^{−(s(positive) − s(negative))}) (Burges et al. 2005, section 3)."""

    def cost(self, difference: Tensor) -> Tensor:
        return F.softplus(-difference)
