"""Defines the indices by which a bandit chooses a run: how good an arm looks."""

from __future__ import annotations

from abc import ABC
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.compiled import kernel
from pooling.pool import TopicPool
from pooling.priors import CommonPrior, Parameters, Prior


class Arms(NamedTuple):
    """What is known of each arm, float64 [arms] each.

    Args:
        plays: judgements that the arm heard of (`jret`, equation 10), less what was forgotten.
        wins: sum of their rewards (`jrel`, equation 9).
        squares: sum of their squares.
        alpha, beta: of the prior Beta distribution.
    """

    plays: NDArray[np.float64]
    wins: NDArray[np.float64]
    squares: NDArray[np.float64]
    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]


class Arm(NamedTuple):
    """What is known of one arm: as `Arms`, but numbers."""

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
    """The `begin` of an index that needs none."""
    return 0.0


class ArmIndex(ABC):
    """The index of an arm: the bandit plays the highest.

    Two compiled functions say it:

    - `begin(arms, turn, remembered, rng, …)` → float, once before each play; turn counts the plays so far, and
      remembered (float) those whose outcome is known and not forgotten;
    - `index(arm, now, rng, …)` → float, for each `Arm`; `now` is what `begin` gave.

    In place of the dots each names the options that it needs: attributes of the object, numbers.
    """

    begin: Any = nothing
    index: Any
    stay: Stay = "never"

    def prior(self, pool: TopicPool, runs: list[str]) -> Parameters:
        """α and β of each run; only Bayesian indices look at them."""
        return CommonPrior()(pool, runs)


class BayesianIndex(ArmIndex):
    """An index of a run's posterior Beta(α + jrel, β + jret - jrel) (equations 7 and 8).

    Args:
        prior: of each run; None is Beta(1, 1) for all.
    """

    def __init__(self, prior: Prior | None = None) -> None:
        self._prior = prior or CommonPrior()

    def prior(self, pool: TopicPool, runs: list[str]) -> Parameters:
        return self._prior(pool, runs)
