"""Defines the contrastive objective: each relevant document against the negatives, at a temperature."""

from __future__ import annotations

import torch
from torch import Tensor

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.objective import Objective


class Contrastive(Objective):
    """InfoNCE: −log of a relevant document's share of a softmax of s/τ over itself and the negatives (van den Oord et
    al. 2018, equation 4).

    Of several relevant documents of a query (`training.positives`) each stands against the negatives alone, and they
    weigh the same (Khosla et al. 2020, equation 2). Among the positives of the batch with `function=in_batch`.

    Args:
        temperature: τ, above 0. Cosines need a low one, such as 0.05; `ranker=static` has its own (`ranker.scale`).

    Raises:
        BadInput: where the temperature is not above 0.
    """

    takes_several = True

    def __init__(self, temperature: float = 1.0) -> None:
        if not temperature > 0:
            raise BadInput(f"temperature is {temperature}", "objective.temperature", "choose a number above 0")
        self.temperature = temperature

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        scaled = scores / self.temperature
        relevant = block.labels > 0
        negatives = scaled.masked_fill(relevant | ~block.present, -torch.inf)
        # A row without a negative has −inf here, which the maximum keeps out of the gradient.
        against = torch.logsumexp(torch.cat([negatives, torch.full_like(negatives[:, :1], -1e30)], 1), 1, keepdim=True)
        costs = torch.logaddexp(scaled, against) - scaled
        costs = costs.masked_fill(~(relevant & block.present), 0)
        return (costs.sum(1) / (relevant & block.present).sum(1).clamp(min=1)).mean()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax((scores / self.temperature).masked_fill(~present, -torch.inf), 1)
