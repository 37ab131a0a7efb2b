"""A training for tests that look at one."""

import numpy as np
import pytest

from pyrite.ranking.training import RankerTraining
from tests.rl.trainings import starts


@pytest.fixture
def training(tiny_sources) -> RankerTraining:
    return starts(tiny_sources)(np.random.SeedSequence(0))[0]
