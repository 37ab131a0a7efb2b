"""Puts examples into batches at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.batch import Batch
from ranking.batches.order import BatchOrder


class Shuffled(BatchOrder):
    """A random order in each epoch."""

    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.permutation(len(examples))
