"""Lists the systems of a synthetic pool by name: eight families whose lists differ most, good and bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.pooling.systems import models
from pyrite.pooling.systems.inputs import SystemInputs
from pyrite.pooling.systems.term_index import Scores, TermIndex

System = Callable[[SystemInputs], Scores]
"""Ranks for every topic; raises BadInput if this machine or this collection lacks a prerequisite."""


def _over(part: str, model: Callable[..., Scores], **parameters: Any) -> System:
    """Apply a model to one form of the texts; documents that share no term with a topic are not retrieved."""

    def system(inputs: SystemInputs) -> Scores:
        index: TermIndex = getattr(inputs, part)
        return np.where(index.matches, model(index, **parameters), -np.inf)

    return system


def _trained(negatives: str, *overrides: str) -> System:
    options = [f"function={negatives}", "training.batch_size=64", *overrides]
    return lambda inputs: inputs.spread(inputs.rescored("bm25_k12_b75", options))


# The part of a name before its first digit or underscore names the family. Of 37 systems over pydocs these share the
# fewest documents: at most 36% of two systems' first 50, and together they find 85% of what all 37 found.
SYSTEMS: dict[str, System] = {
    "bm25_k12_b75": _over("stems", models.bm25, k1=1.2, b=0.75),
    "feedback_rm3": _over("expanded", models.dirichlet, mu=1000),
    "lead_bm25": _over("lead", models.bm25, k1=1.2, b=0.75),
    "proximity_pairs": _over("pairs", models.bm25, k1=1.2, b=0.75),
    "gram_5": _over("grams", models.bm25, k1=1.2, b=0.75),
    "lsi_100": lambda inputs: models.dense_cosine(*inputs.semantics),
    "bag_idf": lambda inputs: inputs.bag_of_vectors(),
    "neural_bm25": _trained("bm25", "ranker=feed_forward", "ranker.preset=tiny", "training.max_epochs=3"),
}
