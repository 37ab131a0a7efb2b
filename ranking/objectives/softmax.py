"""Defines the base of objectives over a softmax of a query's documents, and the likelihood of the relevant one."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective


class SoftmaxObjective(Objective):
    """The base of objectives whose probabilities are a softmax of s/τ over a query's documents."""

    temperature: float = 1.0

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax((scores / self.temperature).masked_fill(~present, -torch.inf), 1)


class TemperedObjective(SoftmaxObjective):
    """The base of those with an option for the temperature.

    Args:
        temperature: the temperature τ.
    """

    takes_several = True

    @checked
    def __init__(self, temperature: Annotated[float, Positive] = 1.0) -> None:
        self.temperature = temperature


class Softmax(SoftmaxObjective):
    """−log of the positive's share in a softmax over the sampled set C_s (Cohen et al. 2019, section 5.3)."""

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        return -torch.log_softmax(scores.masked_fill(~block.present, -torch.inf), 1)[:, 0].mean()
