"""Trains vectors whose first dimensions are good vectors too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import refuse
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective, Scorer
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources


class Matryoshka(Objective):
    """An objective on all dimensions of a ranker's vectors and, added to it, on the first few: vectors can be cut.

    Matryoshka representation learning (Kusupati et al. 2022, equation 1): the loss is Σ_m c_m·L(first m dimensions).
    The texts are read once. A shorter vector is normalized again if the ranker compares by cosine. Set
    `ranker.truncate_dim` to measure or export the shorter vectors.

    Args:
        dimensions: the numbers of first dimensions, each below the ranker's number.
        of: the objective.
        weights: the weights c_m of the dimensions, in their order. None weighs all as the whole vector, 1.

    Raises:
        BadInput: if there are no dimensions, as many weights as dimensions are not given, or the objective scores
            documents several times (SIR).
    """

    @checked
    def __init__(
        self,
        of: Objective = Softmax(),  # noqa: B008
        dimensions: Sequence[Annotated[int, AtLeast(1)]] = (),
        weights: Sequence[Annotated[float, NonNegative]] | None = None,
    ) -> None:
        self.of, self.dimensions = of, list(dimensions)
        self.weights = [1.0] * len(self.dimensions) if weights is None else list(weights)
        what = f"has {len(self.weights)} weights for {len(self.dimensions)} dimensions"
        refuse(len(self.weights) != len(self.dimensions), what, "objective.weights", "give one per dimension, or null")
        refuse(
            type(of).of_passes is not Objective.of_passes or len(of.stages()) > 1,
            f"{type(of).__name__} scores documents several times",
            "objective.of",
            "choose another one",
        )
        self.takes_several, self.needs_teacher, self.whole_batch = of.takes_several, of.needs_teacher, of.whole_batch

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        """Return the loss of the whole vectors."""
        return self.of.loss(scores, block)

    def of_passes(self, score: Scorer, block: Block, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        scores, *shorter = score(dimensions=self.dimensions)
        losses = [self.of.loss(scores, block)]
        for dimension, weight, of_first in zip(self.dimensions, self.weights, shorter, strict=True):
            losses.append(weight * self.of.loss(of_first, block.shortened(dimension)))
        return torch.stack(losses).sum(), scores

    def rank(self, sources: Sources) -> RankedLists | None:
        return self.of.rank(sources)

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.of.prepare(encoded, lists)

    def check_block(self, negatives: int) -> None:
        refuse(not self.dimensions, "dimensions is empty", "objective.dimensions", "list some, such as [128,64]")
        self.of.check_block(negatives)

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return self.of.probabilities(scores, present)
