"""Defines the base of every objective."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.part import Part
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources


@dataclass(frozen=True)
class Stage:
    """One of several rankers that are trained in turn, each on negatives that the one before chose.

    Args:
        block: the number of documents per query, including the positive. None takes the sampler's number.
        pick: how they are chosen from the previous stage's list: its `top`, or at `random` for each batch.
        flows: whether a stage starts from the previous stage's weights.
    """

    block: int | None = None
    pick: str = "top"
    flows: bool = False


class Scorer(Protocol):
    """A function that scores a batch of blocks, each a positive and its negatives."""

    def __call__(self, columns: Tensor | None = None, dimensions: Sequence[int] | None = None) -> Tensor:
        """Return the scores of one pass through the ranker, with a gradient.

        Args:
            columns: int64 [b, k], the documents of each block to score. None scores all 1 + n.
            dimensions: numbers of first dimensions of the vectors. If given, the result has one more axis in front: the
                scores of the whole vectors, and then of each number.
        """


class Objective(Part):
    """The base of all training objectives: a loss of the scores of a positive and its negatives.

    Everywhere, column 0 of `scores` [b, 1 + n] is the positive and the others are negatives. Most objectives define
    `loss` and `probabilities` only. Updates, dev losses and curricula call `loss`.

    An objective that reads something made ahead of time, such as a teacher's scores, works in two steps, as a
    retrieval function does: `rank` does the work that needs text, once for all runs, and `prepare` receives its result.

    Attributes:
        takes_several: whether it uses relevant documents beyond column 0 as such (`Block.labels`).
        needs_teacher: whether it learns a teacher's scores (`Block.teacher_scores`).
        whole_batch: whether it compares the texts of a batch with each other (`Block.batch_scores`).
    """

    takes_several: bool = False
    needs_teacher: bool = False
    whole_batch: bool = False

    @abstractmethod
    def loss(self, scores: Tensor, block: Block) -> Tensor:
        """Return the mean loss of the batch, a scalar.

        Args:
            scores: [b, 1 + n], the ranker's scores. Any number if the block has no document there.
        """

    def rank(self, sources: Sources) -> RankedLists | None:
        """Return documents and scores for all queries, e.g. a teacher's. None if the objective needs none."""
        return None

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        """Prepare for a run.

        Args:
            lists: the result of `rank`.
        """

    def of_passes(self, score: Scorer, block: Block, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the loss of the batch, and the scores [b, 1 + n] of the first pass. By default there is one."""
        scores = score()
        return self.loss(scores, block), scores

    def stages(self) -> list[Stage]:
        """Return the rankers that are trained in turn. By default there is one."""
        return [Stage()]

    def check_block(self, negatives: int) -> None:
        """Refuse blocks with too few negatives per query (`BadInput`)."""

    @abstractmethod
    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        """Return P(relevant | query, document) for these scores under this objective. Shape [b, 1 + n].

        Uncertainty sampling uses it (`pyrite.sampling.selection.error_reduction`).
        """


def mean_over_present(values: Tensor, present: Tensor) -> Tensor:
    """Return the mean of the `values` that are `present`, 0 if none is."""
    return values.masked_fill(~present, 0).sum() / present.sum().clamp(min=1)
