"""Defines the base of every objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ranking.encoding import EncodedCollection
from ranking.objectives.block import Block
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources


@dataclass(frozen=True)
class Stage:
    """One of several rankers that are trained in turn, each on negatives that the one before hands on.

    Args:
        block: documents that a query is shown, the positive among them; None: as many as the sampler is asked for.
        pick: how they come out of the stage before: its `top`, or anew at `random` for each batch.
        flows: whether the weights go on from the stage before, or start anew.
    """

    block: int | None = None
    pick: str = "top"
    flows: bool = False


class Scorer(Protocol):
    """Scores a batch of blocks, each a positive and its negatives."""

    def __call__(self, level: int = 0, columns: Tensor | None = None) -> Tensor:
        """Scores of one pass through the ranker, with a gradient.

        Args:
            level: of compression; a ranker may have a model for each.
            columns: int64 [b, k], the documents of each block to score; None: all 1 + n.
        """


class Objective(ABC):
    """What a ranker is trained to minimise, given the scores of a positive and its negatives.

    Everywhere, column 0 of `scores` [b, 1 + n] is the positive, the others are negatives. `loss` is all that most
    objectives write, and what updates, dev losses and curricula ask for.

    One that reads what is made ahead of time, a teacher's scores say, lives in two places as a retrieval function
    does: `rank` does the work that needs text, once for all runs, and `prepare` takes what it gave.

    Args:
        takes_several: whether it knows relevant documents beyond column 0 for what they are (`Block.labels`).
        needs_teacher: whether it learns a teacher's scores (`Block.teacher_scores`).
    """

    takes_several: bool = False
    needs_teacher: bool = False

    @abstractmethod
    def loss(self, scores: Tensor, block: Block) -> Tensor:
        """The mean over the batch. Scalar.

        Args:
            scores: [b, 1 + n], of the ranker; any number where the block has no document.
            block: what was scored.
        """

    def rank(self, sources: Sources) -> RankedLists | None:
        """Documents and scores for all queries, e.g. of a teacher; None where the objective needs none."""
        return None

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:  # noqa: B027
        """Prepare for a run.

        Args:
            encoded: the collection.
            lists: what `rank` gave.
        """

    def of_passes(self, score: Scorer, block: Block, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The loss where the objective says what is scored: everything once, unless a subclass asks for more.

        Args:
            score: of the batch's documents.
            block: as of `loss`.
            generator: all its chance.

        Returns:
            The loss, and the scores of the first pass [b, 1 + n].
        """
        scores = score()
        return self.loss(scores, block), scores

    def stages(self) -> list[Stage]:
        """The rankers that are trained in turn: one, unless a subclass says otherwise."""
        return [Stage()]

    def check_block(self, negatives: int) -> None:  # noqa: B027
        """Refuse blocks that are too small.

        Args:
            negatives: that each query is shown.

        Raises:
            BadInput: where the objective needs more.
        """

    @abstractmethod
    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        """P(relevant | query, document) as this objective reads scores. Shape [b, 1 + n].

        Uncertainty sampling asks for it (`sampling.selection.error_reduction`).
        """


def mean_over_present(values: Tensor, present: Tensor) -> Tensor:
    """Mean of `values` where `present`, 0 where nothing is."""
    return values.masked_fill(~present, 0).sum() / present.sum().clamp(min=1)
