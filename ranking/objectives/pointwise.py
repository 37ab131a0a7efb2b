"""Defines the cross-entropy of single documents."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective, mean_over_present


class PointwiseCrossEntropy(Objective):
    """Binary cross-entropy of each document: positives towards 1, negatives towards 0 (Pang et al. 2016, equation 9).

    All positives together have the same weight as all negatives together, for any number of negatives.
    """

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        positives = F.softplus(-scores[:, 0]).mean()
        return (positives + mean_over_present(F.softplus(scores[:, 1:]), block.present[:, 1:])) / 2

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.sigmoid(scores)
