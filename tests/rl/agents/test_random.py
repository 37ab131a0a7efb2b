"""Tests of `rl.agents.random`."""

import numpy as np
import torch

from benchmarks.toys import shares_of_first
from rl.agents.random import RandomAgent
from rl.networks import described
from tests.rl.agents.toys import play


def test_the_random_agent_learns_nothing_and_is_uniform(start):
    trainer = start(RandomAgent())
    before = trainer.policy_weights()
    rows = play(trainer, 40)
    assert all(torch.equal(before[name], value) for name, value in trainer.policy_weights().items())
    assert np.array_equal(shares_of_first(described(trainer.network, before)), np.full(20, 0.5))
    assert abs(np.mean([row["actions"] for row in rows]) - 0.5) < 0.08
