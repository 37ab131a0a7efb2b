"""Adds objectives up, each with a weight."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.objective import Objective
from ranking.ranked_lists import RankedLists


class WeightedSum(Objective):
    """Σ weight · loss of several objectives over the same scores, as `objective=[contrastive,margin_mse]`.

    Args:
        weights: by the name of an objective; 1 where none is given.
        terms: the objectives, by name; the first one says what a probability is.

    Raises:
        BadInput: where a weight is of none of them or below 0, or an objective is trained in a way of its own (SIR's
            levels, lists made ahead of time).
    """

    takes_several = True

    def __init__(self, weights: Mapping[str, float] | None = None, **terms: Objective) -> None:
        self.terms, self.weights = terms, dict.fromkeys(terms, 1.0) | dict(weights or {})
        for name, weight in self.weights.items():
            if name not in terms:
                raise BadInput(f"there is no objective {name}", f"objective.weights.{name}", f"has {', '.join(terms)}")
            if not weight >= 0:
                raise BadInput(f"weight is {weight}", f"objective.weights.{name}", "choose a number from 0 up")
        for name, term in terms.items():
            kind = type(term)
            if kind.of_passes is not Objective.of_passes or kind.rank is not Objective.rank or len(term.stages()) > 1:
                raise BadInput(f"{name} is trained in a way of its own", "objective", "choose it alone")
        self.takes_several = all(term.takes_several for term in terms.values())
        self.needs_teacher = any(term.needs_teacher for term in terms.values())

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        losses = [self.weights[name] * term.loss(scores, block) for name, term in self.terms.items()]
        return torch.stack(losses).sum()

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        for term in self.terms.values():
            term.prepare(encoded, None)

    def check_block(self, negatives: int) -> None:
        if not self.terms:
            raise BadInput("no objective to add up", "objective", "give a list: objective=[contrastive,margin_mse]")
        for term in self.terms.values():
            term.check_block(negatives)

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        return next(iter(self.terms.values())).probabilities(scores, present)
