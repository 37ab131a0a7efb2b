"""Judges first the documents that many runs rank high, whatever the judgements: reciprocal rank fusion."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.fusion import Fusion
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import NonNegative, checked


class ReciprocalRank(Fusion):
    """RRF: the document with the highest Σ_s 1 / (constant + rank) (Cormack, Clarke and Büttcher 2009).

    A baseline from metasearch: it uses no judgement, so it shows what learning from judgements adds.

    Args:
        constant: added to ranks. The higher, the less the rank matters compared with being held at all; 60 is the
            authors'.
        reward: how a grade becomes a reward; None is `pyrite.pooling.rewards.Binary`. RRF does not use it.
    """

    @checked
    def __init__(
        self,
        constant: Annotated[float, NonNegative] = 60.0,
        ties: Literal["random", "first"] = "random",
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(ties, reward)
        self.constant = constant

    def rank_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 / (self.constant + ranks)
