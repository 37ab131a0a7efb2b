"""Chooses the document on which the runs that proved good agree most. This method is new here."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.adjudicators.fusion import Fusion
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import NonNegative, Positive, checked


@kernel
def _weight(seen, gained, alpha, beta, power):  # type: ignore[no-untyped-def]
    return ((alpha + gained) / (alpha + beta + seen)) ** power


class PosteriorFusion(Fusion):
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009) weighted by what judging has shown of each run: Σ_s
    mean_s^power / (constant + rank), where mean_s is the mean of the run's posterior Beta(α + jrel_s, β + jret_s -
    jrel_s) (Losada et al. 2016, equations 7 and 8), with the evidence of every judged document that the run holds.

    The defaults were chosen on every second topic of TREC-8; docs/pooling.md has the details and the results on the
    other topics.

    Args:
        power: exponent of the posterior mean; 0 is plain fusion. The higher, the more the best runs decide alone.
        constant: added to ranks. The higher, the less the rank matters compared with being held at all.
        alpha, beta: parameters of the prior, above 0.
    """

    weight = staticmethod(_weight)

    @checked
    def __init__(
        self,
        power: Annotated[float, NonNegative] = 20.0,
        constant: Annotated[float, NonNegative] = 30.0,
        alpha: Annotated[float, Positive] = 0.5,
        beta: Annotated[float, Positive] = 2.0,
        ties: Literal["random", "first"] = "random",
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(ties, reward)
        self.power, self.constant, self.alpha, self.beta = power, constant, alpha, beta

    def rank_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 / (self.constant + ranks)
