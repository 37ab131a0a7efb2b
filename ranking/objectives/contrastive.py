"""Defines the contrastive objective, InfoNCE."""

from __future__ import annotations

import torch
from torch import Tensor

from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.softmax import TemperedObjective


class Contrastive(TemperedObjective):
    """InfoNCE: each relevant document against the negatives, at a temperature.

    The loss is −log of the relevant document's share in a softmax of s/τ over itself and the negatives (van den Oord
    et al. 2018, equation 4). If a query has several relevant documents (`training.positives`), each is compared with
    the negatives alone, and all have the same weight (Khosla et al. 2020, equation 2). With `function=in_batch` the
    negatives are the positives of the batch's other queries.

    Args:
        temperature: the temperature τ of the softmax. Cosines need a low one, such as 0.05; `ranker=static` scales its
            scores itself (`ranker.scale`).
    """

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        scaled = scores / self.temperature
        relevant = block.labels > 0
        negatives = scaled.masked_fill(relevant | ~block.present, -torch.inf)
        # A row without a negative has −inf here, and the maximum keeps that out of the gradient.
        against = torch.logsumexp(torch.cat([negatives, torch.full_like(negatives[:, :1], -1e30)], 1), 1, keepdim=True)
        costs = torch.logaddexp(scaled, against) - scaled
        costs = costs.masked_fill(~(relevant & block.present), 0)
        return (costs.sum(1) / (relevant & block.present).sum(1).clamp(min=1)).mean()
