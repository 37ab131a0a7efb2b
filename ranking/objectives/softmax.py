"""Defines the likelihood of the relevant document under a softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from ranking.objectives.block import Block
from ranking.objectives.objective import Objective


class SoftmaxLikelihood(Objective):
    """−log of the positive's share in a softmax over the sampled set C_s (Cohen et al. 2019, section 5.3)."""

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        return -torch.log_softmax(scores.masked_fill(~block.present, -torch.inf), 1)[:, 0].mean()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax(scores.masked_fill(~present, -torch.inf), 1)
