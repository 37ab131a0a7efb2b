"""Adds objectives up, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor

from pyrite.ranking.bounds import NonNegative, checked
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import refuse
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.ranked_lists import RankedLists


class WeightedSum(Objective):
    """A weighted sum of several objectives over the same scores: `objective=[contrastive,margin_mse]`.

    Args:
        weights: the weight of each objective, by name; 1 by default.
        terms: the objectives, by name. The first one defines `probabilities`.

    Raises:
        BadInput: if a weight is below 0 or names none of them, or an objective needs a training of its kind (SIR's
            levels, lists made ahead of time).
    """

    takes_several = True

    @checked
    def __init__(self, weights: Mapping[str, Annotated[float, NonNegative]] | None = None, **terms: Objective) -> None:
        self.terms, self.weights = terms, dict.fromkeys(terms, 1.0) | dict(weights or {})
        for name in self.weights:
            refuse(
                name not in terms,
                f"there is no objective {name}",
                f"objective.weights.{name}",
                f"has {', '.join(terms)}",
            )
        for name, term in terms.items():
            kind = type(term)
            refuse(
                kind.of_passes is not Objective.of_passes or kind.rank is not Objective.rank or len(term.stages()) > 1,
                f"{name} needs a training of its kind",
                "objective",
                "choose it alone",
            )
        self.takes_several = all(term.takes_several for term in terms.values())
        self.needs_teacher = any(term.needs_teacher for term in terms.values())
        self.whole_batch = any(term.whole_batch for term in terms.values())

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        losses = [self.weights[name] * term.loss(scores, block) for name, term in self.terms.items()]
        return torch.stack(losses).sum()

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        for term in self.terms.values():
            term.prepare(encoded, None)

    def check_block(self, negatives: int) -> None:
        refuse(not self.terms, "no objective to add up", "objective", "give a list: objective=[contrastive,margin_mse]")
        for term in self.terms.values():
            term.check_block(negatives)

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return next(iter(self.terms.values())).probabilities(scores, present)
