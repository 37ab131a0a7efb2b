"""Batches of queries for tests that look at functions and selectors alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.training import Batch


def batch_of(*queries: int | NDArray[np.integer]) -> Batch:
    """A batch of these queries, or of an array of them, whose positives nobody asks for."""
    asked = np.concatenate([np.atleast_1d(np.asarray(query, np.int64)) for query in queries])
    return Batch(asked, np.zeros(len(asked), np.int32))
