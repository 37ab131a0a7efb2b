"""Defines the indices by which a bandit chooses a run."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.priors import CommonPrior, Parameters, Prior
from pyrite.ranking.part import Part


class Arms(NamedTuple):
    """The evidence for each arm, float64 [arms] each.

    Args:
        plays: judgements that the arm learned from (`jret`, equation 10), minus those forgotten.
        wins: sum of their rewards (`jrel`, equation 9).
        squares: sum of their squared rewards.
        alpha, beta: parameters of the prior Beta distribution.
    """

    plays: NDArray[np.float64]
    wins: NDArray[np.float64]
    squares: NDArray[np.float64]
    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]


class Arm(NamedTuple):
    """The evidence for one arm: as `Arms`, but numbers."""

    plays: float
    wins: float
    squares: float
    alpha: float
    beta: float


Stay = Literal["never", "best", "rewarded", "until_missed"]
"""When the arm played last is played again, of those tied for the highest index: `never` by rule, chance decides; as
long as it is among the `best`; only when it was `rewarded` for its last document, otherwise chance decides; or
`until_missed`, when another of those tied is played."""


@kernel
def nothing(arms, turn, remembered, rng):  # type: ignore[no-untyped-def]
    """Return 0: the `begin` of an index that needs none."""
    return 0.0


class ArmIndex(Part):
    """The index of an arm: the bandit plays the highest.

    Two compiled functions define it:

    - `begin(arms, turn, remembered, rng, …)` → float is called once before each play; `turn` is the number of plays so
      far, and `remembered` (float) the number of those with a known outcome that are not forgotten;
    - `index(arm, now, rng, …)` → float is called for each `Arm`; `now` is the result of `begin`.

    After these arguments each names the options that it needs: attributes of the object, numbers.
    """

    begin: Any = nothing
    index: Any
    stay: Stay = "never"

    def prior(self, pool: TopicPool, runs: list[str]) -> Parameters:
        """Return α and β of each run. Only Bayesian indices use them."""
        return CommonPrior()(pool, runs)


class BayesianIndex(ArmIndex):
    """An index of a run's posterior Beta(α + jrel, β + jret - jrel) (equations 7 and 8).

    Args:
        prior: the prior of each run (`pyrite.pooling.priors`); None is Beta(1, 1) for all.
    """

    def __init__(self, prior: Prior | None = None) -> None:
        self._prior = prior or CommonPrior()

    def prior(self, pool: TopicPool, runs: list[str]) -> Parameters:
        return self._prior(pool, runs)
