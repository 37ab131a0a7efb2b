"""Defines ListNet, a listwise likelihood."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ranking.bounds import Positive, checked
from ranking.objectives.block import Block
from ranking.objectives.softmax import SoftmaxLikelihood


class ListNet(SoftmaxLikelihood):
    """The cross-entropy of two softmaxes over a list, one of labels and one of scores (Cao et al. 2007, top-one form).

    A larger label of the positive leaves the negatives a smaller share of the first softmax; in the limit the loss is
    `SoftmaxLikelihood`. A small label asks for scores that are close to each other.

    Args:
        label: the label of a relevant document of grade 1. A document of grade g has g times as much, a negative 0.

    Raises:
        BadInput: if the label is not above 0.
    """

    takes_several = True

    @checked
    def __init__(self, label: Annotated[float, Positive] = 1.0) -> None:
        self.label = label

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        labels = self.label * block.labels.to(scores.dtype)
        target = torch.softmax(labels.masked_fill(~block.present, -torch.inf), 1)
        logs = torch.log_softmax(scores.masked_fill(~block.present, -torch.inf), 1).masked_fill(~block.present, 0)
        return -(target * logs).sum(1).mean()
