"""Weighs what a document can add to the runs' rank-biased precision (Moffat, Webber and Zobel 2007)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.adjudicators.fusion import Fusion
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import Between, checked


@kernel
def _residual(seen, gained):  # type: ignore[no-untyped-def]
    return 1.0 - seen


@kernel
def _predicted(seen, gained):  # type: ignore[no-untyped-def]
    residual = 1.0 - seen
    middle = gained + residual / 2.0
    return residual * (middle * middle * middle)


class MoffatA(Fusion):
    """Method A: w_d = Σ_s c_sd with c_sd = (1 - p) p^(rank - 1) (Losada et al. 2016, equations 3 and 4).

    Args:
        p: persistence of the reader, between 0 and 1.
        reward: how a grade becomes a reward; None is `pyrite.pooling.rewards.Binary`. A and B do not use it.
    """

    @checked
    def __init__(
        self,
        p: Annotated[float, Between(0, 1, exclude="both")] = 0.8,
        ties: Literal["random", "first"] = "random",
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(ties, reward)
        self.p = p

    def rank_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        return (1 - self.p) * self.p ** (ranks - 1)

    evidence_weight = rank_weight


class MoffatB(MoffatA):
    """Method B: w_d = Σ_s c_sd · res_s. A run's residual starts at 1 and falls by c_sd with each of its documents that
    is judged (Losada et al. 2016, equation 5).
    """

    weight = staticmethod(_residual)


class MoffatC(MoffatA):
    """Method C: w_d = Σ_s c_sd · res_s · (base_s + res_s / 2)³. A run's base is the sum of c_sd over its relevant
    documents found so far (Losada et al. 2016, equation 6).
    """

    weight = staticmethod(_predicted)
