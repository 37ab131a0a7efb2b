"""Defines objectives that learn a teacher's scores: its margins, or its distribution over a query's documents."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.objective import Objective, mean_over_present


class MarginMSE(Objective):
    """The squared difference of the ranker's margin s(d⁺) − s(d⁻) and the teacher's (Hofstätter et al. 2020).

    Pairs whose scores the teacher does not know count for nothing: of what `in_batch` and `random` offer, say, which
    are in no list.

    Args:
        scale: of the teacher's margins, above 0: what brings them to the ranker's scale.

    Raises:
        BadInput: where the scale is not above 0.
    """

    takes_several = True
    needs_teacher = True

    def __init__(self, scale: float = 1.0) -> None:
        if not scale > 0:
            raise BadInput(f"scale is {scale}", "objective.scale", "choose a number above 0")
        self.scale = scale

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        teacher = block.teacher_scores
        known = block.present[:, 1:] & teacher[:, 1:].isfinite() & teacher[:, :1].isfinite()
        wanted = self.scale * (teacher[:, :1] - teacher[:, 1:]).masked_fill(~known, 0)
        found = (scores[:, :1] - scores[:, 1:]).masked_fill(~known, 0)
        return mean_over_present((found - wanted) ** 2, known)

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        """σ(s − s(positive)): how probably the document beats the positive."""
        return torch.sigmoid(scores - scores[:, :1])


class Distillation(Objective):
    """KL(teacher ‖ ranker) of softmaxes of s/τ over the documents whose scores the teacher knows (Hinton et al. 2015,
    section 2; for rankers Ren et al. 2021, equation 5).

    A query with fewer than two such documents counts for nothing.

    Args:
        temperature: τ of both, above 0; the loss is multiplied by τ², so that gradients stay of one size.

    Raises:
        BadInput: where the temperature is not above 0.
    """

    takes_several = True
    needs_teacher = True

    def __init__(self, temperature: float = 1.0) -> None:
        if not temperature > 0:
            raise BadInput(f"temperature is {temperature}", "objective.temperature", "choose a number above 0")
        self.temperature = temperature

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        teacher = block.teacher_scores
        known = block.present & teacher.isfinite()
        rows = known.sum(1) > 1
        if not rows.any():
            return (scores * 0).sum()
        known = known[rows]
        wanted = (teacher[rows] / self.temperature).masked_fill(~known, -torch.inf).log_softmax(1)
        found = (scores[rows] / self.temperature).masked_fill(~known, -torch.inf).log_softmax(1)
        wanted, found = wanted.masked_fill(~known, -1e4), found.masked_fill(~known, 0)
        divergence = F.kl_div(found, wanted, log_target=True, reduction="none").masked_fill(~known, 0).sum(1)
        return self.temperature**2 * divergence.sum() / len(scores)

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return torch.softmax((scores / self.temperature).masked_fill(~present, -torch.inf), 1)
