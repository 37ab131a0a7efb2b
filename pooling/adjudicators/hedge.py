"""Treats runs as experts whose losses are counted (Aslam, Pavlu and Savell 2003)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.adjudicators.fusion import Fusion
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import Between, checked

MOST = 300.0
"""Powers of ten that a weight may rise to; double precision ends at 308."""


@kernel
def _weight(seen, gained, log_beta):  # type: ignore[no-untyped-def]
    return 10.0 ** min(log_beta * (seen - 2.0 * gained), MOST)


class Hedge(Fusion):
    """Hedge: the document with the highest Σ_s β^loss_s · ½ ln(Z / rank).

    A judged document costs a run ½ ln(Z / rank) if it is not relevant and earns it that much if it is. Three things
    differ from the source, which works on whole lists, because a pool knows only the runs' first ranks:

    - Z is the pool's depth, not the length of the whole lists: the pool's last rank has no weight.
    - A run has no stake in a document that it does not hold within the depth. In the source each run has one in every
      document: for those that it did not retrieve, the mean over the ranks after the end of its list.
    - Weights are not divided by their sum, which changes no order, and are capped at 10^300, the limit of floats. If
      all are below 10^-200, the least loss is subtracted from all losses.

    Args:
        beta: factor that a loss of one leaves of a run's weight, between 0 and 1; 0.1 is the authors'.
    """

    weight = staticmethod(_weight)
    relative = True

    @checked
    def __init__(
        self,
        beta: Annotated[float, Between(0, 1, exclude="both")] = 0.1,
        ties: Literal["random", "first"] = "random",
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(ties, reward)
        self.beta = beta
        self.log_beta = float(np.log10(self.beta))

    def rank_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        return 0.5 * np.log(len(ranks) / ranks)

    evidence_weight = rank_weight
