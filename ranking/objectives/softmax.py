"""Defines the base of objectives over a softmax of a query's documents, and the likelihood of the relevant one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from pyrite.ranking.bounds import NonNegative, Positive, checked
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


class Softmax(TemperedObjective):
    """−log of the positive's share in a softmax over the sampled set C_s (Cohen et al. 2019, section 5.3).

    The options are those of today's encoders. All but `temperature` and `margin` compare the vectors of the batch's
    texts with each other, which are read once. Pairs of which one's positive is relevant for the other's query, or has
    the text of the other's positive, are left out; if queries are documents, so are those of which one's query is
    relevant for the other's, or has the text of the other's positive. The dev loss has the first softmax alone.

    Args:
        temperature: the temperature τ of the softmax of s/τ. Cosines need a low one, such as 0.05.
        margin: the margin m from which a negative counts as a false one and is left out: s > s⁺ + m, on the scale of
            the scores (Zhang et al. 2025, Qwen3-Embedding: its mask m_ij, with .1 for cosines). None leaves out none.
        symmetric: whether a second softmax compares each positive with all queries of the batch; the loss is the mean
            of both (Radford et al. 2021, figure 3).
        other_queries: whether the batch's other queries are negatives of a query too (Li et al. 2023, GTE: its improved
            contrastive loss).
        other_documents: whether the batch's other positives are negatives of the positive too (as before).
    """

    takes_several = False
    margin: float | None = None
    symmetric = other_queries = other_documents = False

    @checked
    def __init__(
        self,
        temperature: Annotated[float, Positive] = 1.0,
        *,
        margin: Annotated[float, NonNegative] | None = None,
        symmetric: bool = False,
        other_queries: bool = False,
        other_documents: bool = False,
    ) -> None:
        super().__init__(temperature)
        self.margin, self.symmetric = margin, symmetric
        self.other_queries, self.other_documents = other_queries, other_documents
        self.whole_batch = symmetric or other_queries or other_documents

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        if not self.whole_batch or block.find_batch_scores is None:
            return self._cost([scores], [block.present])
        crossed, of_queries, of_documents = block.batch_scores
        others = ~block.alike
        more = [of_queries] * self.other_queries + [of_documents] * self.other_documents
        loss = self._cost([scores, *more], [block.present, *[others] * len(more)])
        if not self.symmetric:
            return loss
        back = self._cost([crossed.diagonal()[:, None], crossed.mT], [block.present[:, :1], others])
        return (loss + back) / 2

    def _cost(self, scores: Sequence[Tensor], present: Sequence[Tensor]) -> Tensor:
        """Return the mean of −log of the first column's share among the columns that are present."""
        columns, known = torch.cat(list(scores), 1), torch.cat(list(present), 1)
        if self.margin is not None:
            known = known & (columns <= columns[:, :1] + self.margin)
        return -torch.log_softmax((columns / self.temperature).masked_fill(~known, -torch.inf), 1)[:, 0].mean()
