"""Chooses a retrieval function at random for each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyrite.sampling.policies.policy import SamplingPolicy

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class RandomPolicy(SamplingPolicy):
    """Every function equally probable, drawn for each batch: "Random AC-IR" (Cohen et al. 2019, section 5.2)."""

    independent = True

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(len(batch), rng.integers(len(self.functions)))
