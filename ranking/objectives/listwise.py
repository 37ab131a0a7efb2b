"""Defines objectives over a whole list with graded gains: ListNet, LambdaRank, ApproxNDCG and ListMLE."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.pairwise import PairObjective
from pyrite.ranking.objectives.softmax import SoftmaxObjective, TemperedObjective


class ListNet(SoftmaxObjective):
    """The cross-entropy of two softmaxes over a list, one of labels and one of scores (Cao et al. 2007, top-one form).

    A larger label of the positive leaves the negatives a smaller share of the first softmax; in the limit the loss is
    `Softmax`. A small label asks for scores that are close to each other.

    Args:
        label: the label of a relevant document of grade 1. A document of grade g has g times as much, a negative 0.
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


class LambdaRank(PairObjective):
    """Pairs of a better and a worse document, each weighted by the change of nDCG if they swap ranks.

    This is LambdaLoss with the weights of Burges (2010) (Wang et al. 2018, equation 16):
    Σ |2^{y_i} − 2^{y_j}|·|1/D(i) − 1/D(j)|·log₂(1 + e^{−σ(s_i − s_j)}) over y_i > y_j, divided by the ideal DCG, where
    D(i) is log₂(1 + rank of i by the current scores). With the top of the current index as negatives and frozen
    documents it is the loss of ADORE (Zhan et al. 2021, section 4.2).

    Args:
        cutoff: the cutoff of nDCG: lower ranks are worth nothing. None uses all ranks.
        sigma: the steepness σ of a pair's cost.
    """

    takes_several = True

    @checked
    def __init__(
        self, cutoff: Annotated[int, AtLeast(1)] | None = None, sigma: Annotated[float, Positive] = 1.0
    ) -> None:
        self.cutoff, self.sigma = cutoff, sigma

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        gains = gains_of(block)
        known = scores.detach().masked_fill(~block.present, -torch.inf)
        ranks = 1 + known.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        discounts = 1 / torch.log2(1 + ranks)
        if self.cutoff is not None:
            discounts = discounts.masked_fill(ranks > self.cutoff, 0)
        better = (block.labels[:, :, None] > block.labels[:, None, :]) & block.present[:, None, :]
        weights = (gains[:, :, None] - gains[:, None, :]) * (discounts[:, :, None] - discounts[:, None, :]).abs()
        weights = (weights / ideal_dcg(gains, self.cutoff)[:, None, None]).masked_fill(~better, 0)
        present = scores.masked_fill(~block.present, 0)
        costs = F.softplus(-self.sigma * (present[:, :, None] - present[:, None, :])) / torch.log(torch.tensor(2.0))
        return (weights * costs).sum((1, 2)).mean()


class ApproxNDCG(TemperedObjective):
    """1 − nDCG with smooth ranks, 1 + Σ_{j≠i} σ((s_j − s_i)/τ) (Qin et al. 2010, equations 6 and 9).

    Args:
        temperature: the temperature τ. A lower one is nearer to nDCG, and flatter between its steps.
    """

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        gains = gains_of(block)
        scaled = scores.masked_fill(~block.present, 0) / self.temperature
        before = torch.sigmoid(scaled[:, None, :] - scaled[:, :, None])
        itself = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        ranks = 1 + before.masked_fill(itself | ~block.present[:, None, :], 0).sum(2)
        return (1 - (gains / torch.log2(1 + ranks)).sum(1) / ideal_dcg(gains)).mean()


class ListMLE(SoftmaxObjective):
    """The likelihood of the order that puts relevant documents first, better ones before others.

    −log of the Plackett-Luce probability (Xia et al. 2008, section 4) of the top of the list only, as in Xia et al.
    2009, because negatives have no order among them. With one relevant document it equals the softmax's likelihood.
    Equal grades keep the order of the block.
    """

    takes_several = True

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        labels = block.labels.masked_fill(~block.present, -1)
        order = labels.argsort(dim=1, descending=True, stable=True)
        ordered = scores.masked_fill(~block.present, -1e30).gather(1, order)
        left = ordered.flip(1).logcumsumexp(1).flip(1)  # log-sum of this rank and all below it
        relevant = labels.gather(1, order) > 0
        return (left - ordered).masked_fill(~relevant, 0).sum(1).mean()


def gains_of(block: Block) -> Tensor:
    """Return 2^grade − 1 for relevant documents and 0 for all others, divided by 2 to the row's highest grade.

    An nDCG is a quotient of sums of gains, of which the power of two is no part: it is the same to the last bit, and
    2^grade is no number from grade 128 on. Shape [b, 1 + n].
    """
    highest = block.labels.amax(1, keepdim=True)
    return (2 ** (block.labels - highest) - 2**-highest).masked_fill(~block.present, 0)


def ideal_dcg(gains: Tensor, cutoff: int | None = None) -> Tensor:
    """Return the DCG of each row's best order by its gains, at least a tiny number. Shape [b]."""
    best = gains.sort(1, descending=True).values[:, :cutoff]
    ranks = torch.arange(2, 2 + best.shape[1], device=gains.device)
    return (best / torch.log2(ranks)).sum(1).clamp(min=1e-9)
