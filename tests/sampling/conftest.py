"""Trainings for policies and selectors that learn from one."""

from collections.abc import Callable

import pytest

from pyrite.ranking.training import RankerTraining
from tests.ranking.trained import feed_forward, in_small_batches


@pytest.fixture
def tiny_training(tiny_sources) -> Callable[..., RankerTraining]:
    """Makes the training of a tiny f_FF on `tiny`: five examples, three batches an epoch."""
    return lambda seed=0: in_small_batches(feed_forward(tiny_sources, seed), tiny_sources, seed=seed)
