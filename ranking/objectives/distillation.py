"""Defines objectives that learn a teacher's scores: its margins, or its distribution over a query's documents."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import mean_over_present
from pyrite.ranking.objectives.pairwise import PairObjective
from pyrite.ranking.objectives.softmax import TemperedObjective


class MarginMSE(PairObjective):
    """The squared error of margins: the ranker's s(d⁺) − s(d⁻) against the teacher's (Hofstätter et al. 2020).

    Needs a teacher. A pair counts only if the teacher has scores for both documents, so negatives from `in_batch` or
    `random`, which are in no scored list, usually count for nothing.

    Args:
        scale: the factor that brings the teacher's margins to the ranker's scale.
    """

    takes_several = True
    needs_teacher = True

    @checked
    def __init__(self, scale: Annotated[float, Positive] = 1.0) -> None:
        self.scale = scale

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        teacher = block.teacher_scores
        known = block.present[:, 1:] & teacher[:, 1:].isfinite() & teacher[:, :1].isfinite()
        target = self.scale * (teacher[:, :1] - teacher[:, 1:]).masked_fill(~known, 0)
        margin = (scores[:, :1] - scores[:, 1:]).masked_fill(~known, 0)
        return mean_over_present((margin - target) ** 2, known)


class Distillation(TemperedObjective):
    """The divergence of the ranker's distribution over a query's documents from the teacher's.

    KL(teacher ‖ ranker) of softmaxes of s/τ over the documents that the teacher has scores for (Hinton et al. 2015,
    section 2; for rankers Ren et al. 2021, equation 5). Needs a teacher. A query with fewer than two such documents
    counts for nothing.

    Args:
        temperature: the temperature τ of both softmaxes. The loss is multiplied by τ², which keeps the size of the
            gradients.
    """

    needs_teacher = True

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        teacher = block.teacher_scores
        known = block.present & teacher.isfinite()
        rows = known.sum(1) > 1
        if not rows.any():
            return (scores * 0).sum()
        known = known[rows]
        target = (teacher[rows] / self.temperature).masked_fill(~known, -torch.inf).log_softmax(1)
        logs = (scores[rows] / self.temperature).masked_fill(~known, -torch.inf).log_softmax(1)
        target, logs = target.masked_fill(~known, -1e4), logs.masked_fill(~known, 0)
        divergence = F.kl_div(logs, target, log_target=True, reduction="none").masked_fill(~known, 0).sum(1)
        return self.temperature**2 * divergence.sum() / len(scores)
