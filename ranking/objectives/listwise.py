"""Defines objectives over a whole list with graded gains: LambdaRank, ApproxNDCG and ListMLE."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.objective import Objective


class LambdaRank(Objective):
    """Pairs of a better and a worse document, each weighed by what their exchange does to nDCG (LambdaLoss; Wang et al.
    2018, equation 16: the weights of Burges 2010).

    Σ |2^{y_i} − 2^{y_j}|·|1/D(i) − 1/D(j)|·log₂(1 + e^{−σ(s_i − s_j)}) over y_i > y_j, by the ideal DCG, where D(i) is
    log₂(1 + rank of i by the scores of now). With the top of the current index and documents frozen it is ADORE's
    (Zhan et al. 2021, section 4.2).

    Args:
        cutoff: of nDCG: ranks behind it are worth nothing; None looks at all.
        sigma: σ, above 0.

    Raises:
        BadInput: where an option is out of its range.
    """

    takes_several = True

    def __init__(self, cutoff: int | None = None, sigma: float = 1.0) -> None:
        if cutoff is not None and cutoff < 1:
            raise BadInput(f"cutoff is {cutoff}", "objective.cutoff", "choose a rank from 1 up")
        if not sigma > 0:
            raise BadInput(f"sigma is {sigma}", "objective.sigma", "choose a number above 0")
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
        there = scores.masked_fill(~block.present, 0)
        costs = F.softplus(-self.sigma * (there[:, :, None] - there[:, None, :])) / torch.log(torch.tensor(2.0))
        return (weights * costs).sum((1, 2)).mean()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        """σ(s − s(positive)): how probably the document beats the positive."""
        return torch.sigmoid(self.sigma * (scores - scores[:, :1]))


class ApproxNDCG(Objective):
    """1 − nDCG with ranks made smooth: 1 + Σ_{j≠i} σ((s_j − s_i)/τ) (Qin et al. 2010, equations 6 and 9).

    Args:
        temperature: τ, above 0: the lower, the nearer to nDCG, and the flatter away from its steps.

    Raises:
        BadInput: where the temperature is not above 0.
    """

    takes_several = True

    def __init__(self, temperature: float = 1.0) -> None:
        if not temperature > 0:
            raise BadInput(f"temperature is {temperature}", "objective.temperature", "choose a number above 0")
        self.temperature = temperature

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        gains = gains_of(block)
        there = scores.masked_fill(~block.present, 0) / self.temperature
        before = torch.sigmoid(there[:, None, :] - there[:, :, None])
        itself = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        ranks = 1 + before.masked_fill(itself | ~block.present[:, None, :], 0).sum(2)
        return (1 - (gains / torch.log2(1 + ranks)).sum(1) / ideal_dcg(gains)).mean()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax((scores / self.temperature).masked_fill(~present, -torch.inf), 1)


class ListMLE(Objective):
    """−log of the Plackett-Luce probability that the relevant documents come first, the better ones before the others
    (Xia et al. 2008, section 4; of the top alone as in Xia et al. 2009, since negatives have no order among them).

    Of one relevant document it is the softmax's likelihood. Equal grades stand in the order of the block.
    """

    takes_several = True

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        labels = block.labels.masked_fill(~block.present, -1)
        order = labels.argsort(dim=1, descending=True, stable=True)
        ordered = scores.masked_fill(~block.present, -1e30).gather(1, order)
        left = ordered.flip(1).logcumsumexp(1).flip(1)  # of each place, itself and all behind it
        relevant = labels.gather(1, order) > 0
        return (left - ordered).masked_fill(~relevant, 0).sum(1).mean()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax(scores.masked_fill(~present, -torch.inf), 1)


def gains_of(block: Block) -> Tensor:
    """2^grade − 1 of what is relevant, 0 of all else. Shape [b, 1 + n]."""
    return (2**block.labels - 1).masked_fill(~block.present, 0)


def ideal_dcg(gains: Tensor, cutoff: int | None = None) -> Tensor:
    """DCG of the best order of each row, at least a tiny number. Shape [b]."""
    best = gains.sort(1, descending=True).values[:, :cutoff]
    places = torch.arange(2, 2 + best.shape[1], device=gains.device)
    return (best / torch.log2(places)).sum(1).clamp(min=1e-9)
