"""Puts the runs of a search into brackets of successive halving by a generator of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.tune.schedulers import AsyncHyperBandScheduler


class SeededHyperBand(AsyncHyperBandScheduler):
    """Ray Tune's asynchronous HyperBand (Li et al. 2018, 2020), whose brackets are not drawn by a global generator.

    Args:
        seed: of which run is in which bracket.
        options: those of Ray Tune's: `grace_period`, `reduction_factor`, `brackets`, `max_t`, `time_attr`.
    """

    def __init__(self, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self._rng = np.random.default_rng(seed)

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Draw its bracket with Tune's own probabilities: the more rungs, the more likely."""
        rungs = np.array([len(bracket._rungs) for bracket in self._brackets])
        likely = np.exp(rungs - rungs.max())
        self._trial_info[trial.trial_id] = self._brackets[self._rng.choice(len(rungs), p=likely / likely.sum())]
