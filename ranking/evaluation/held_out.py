"""Computes the objective's loss on queries that are not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates


@dataclass(frozen=True)
class HeldOut:
    """Dev queries, each with a relevant document and fixed negatives (Saeidi et al. 2017, figure 5).

    Args:
        queries: int64 [q].
        documents: int32 [q, 1 + n], the relevant one first; −1 for none.
    """

    encoded: EncodedCollection
    queries: NDArray[np.int64]
    documents: NDArray[np.int32]

    @torch.no_grad()
    def loss(self, ranker: Ranker, objective: Objective) -> float:
        """Return the objective's loss over all of them."""
        scores = score_candidates(ranker, self.encoded, self.queries, self.documents)
        block = Block.of(self.encoded, self.queries, self.documents)
        return float(objective.loss(torch.from_numpy(np.where(self.documents >= 0, scores, 0)), block))
