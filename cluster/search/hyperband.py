"""Assigns the runs of a search to brackets of successive halving with a seeded generator."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.tune.schedulers import AsyncHyperBandScheduler


class SeededHyperBand(AsyncHyperBandScheduler):
    """Ray Tune's asynchronous HyperBand (Li et al. 2018, 2020) with a generator that is not global.

    Args:
        time_attr: what counts as time.
        grace_period: time that every run has in the first bracket.
        reduction_factor: one run in this many continues beyond a rung, and each rung is this many times the last.
        brackets: number of brackets, starting with the one that stops earliest.
        max_t: time at which all runs stop.
        seed: seed of the assignment.
    """

    def __init__(
        self,
        time_attr: str = "epoch",
        grace_period: int = 1,
        reduction_factor: float = 4,
        brackets: int = 3,
        max_t: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(
            time_attr=time_attr, grace_period=grace_period, reduction_factor=reduction_factor, brackets=brackets,
            max_t=max_t,
        )  # fmt: skip
        self._rng = np.random.default_rng(seed)

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Draw its bracket with Tune's probabilities: the more rungs, the more likely."""
        rungs = np.array([len(bracket._rungs) for bracket in self._brackets])
        likely = np.exp(rungs - rungs.max())
        self._trial_info[trial.trial_id] = self._brackets[self._rng.choice(len(rungs), p=likely / likely.sum())]
