"""Judges first what many runs rank high: reciprocal rank fusion, whatever the judgements say."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.compiled import kernel
from pooling.adjudicators.fusion import Fusion
from pooling.rewards import Reward
from ranking.errors import BadInput


@kernel
def _weight(seen, gained):  # type: ignore[no-untyped-def]
    return 1.0


class ReciprocalRank(Fusion):
    """RRF: the document with the highest Σ_s 1 / (constant + rank) (Cormack, Clarke and Büttcher 2009).

    A baseline from metasearch: it needs no judgement, so it shows what hearing them adds.

    Args:
        constant: the higher, the less the rank matters beside being held at all; 60 is the authors'.
        ties: between documents: `random`, or `first` in the order of their ids.
        reward: what is heard of a judgement; RRF does not ask what it is.

    Raises:
        BadInput: where constant is below 0.
    """

    weight = staticmethod(_weight)

    def __init__(
        self, constant: float = 60.0, ties: Literal["random", "first"] = "random", reward: Reward | None = None
    ) -> None:
        super().__init__(ties, reward)
        if constant < 0:
            raise BadInput(f"constant is {constant}", remedy="give 0 or more")
        self.constant = constant

    def rank_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 / (self.constant + ranks)
