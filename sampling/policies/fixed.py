"""Chooses the same retrieval function for all batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sampling.policies.policy import SamplingPolicy

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class Fixed(SamplingPolicy):
    """Always the one function: BM25 or random sampling as it is usually done."""

    chooses = False

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.zeros(len(batch), np.int64)
