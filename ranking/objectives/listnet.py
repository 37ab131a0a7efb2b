"""Defines ListNet, a listwise likelihood."""

from __future__ import annotations

import torch
from torch import Tensor

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.softmax import SoftmaxLikelihood


class ListNet(SoftmaxLikelihood):
    """Cross-entropy of two softmaxes over a list, of its labels and of its scores (Cao et al. 2007, top-one form).

    The larger the positive's label, the less the negatives' share of the first softmax: in the limit it is
    `SoftmaxLikelihood`. A small one asks for scores that lie near each other.

    Args:
        label: of a relevant document of grade 1, above 0; one of grade g has g times as much, negatives have 0.

    Raises:
        BadInput: where the label is not above 0.
    """

    takes_several = True

    def __init__(self, label: float = 1.0) -> None:
        if not label > 0:
            raise BadInput(f"label is {label}", "objective.label", "choose a number above 0")
        self.label = label

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        labels = self.label * block.labels.to(scores.dtype)
        wanted = torch.softmax(labels.masked_fill(~block.present, -torch.inf), 1)
        found = torch.log_softmax(scores.masked_fill(~block.present, -torch.inf), 1).masked_fill(~block.present, 0)
        return -(wanted * found).sum(1).mean()
