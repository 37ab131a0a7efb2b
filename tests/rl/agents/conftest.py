"""Trainers of agents on toys."""

from typing import Any

import pytest
import torch

from benchmarks.toys import EarlyLate, maker
from pyrite.rl.agents.agent import Agent
from pyrite.rl.rllib.algorithm import Lockstep


def play(trainer: Lockstep, updates: int) -> list[dict[str, Any]]:
    """Make exactly so many updates: an iteration ends with each."""
    rows = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyrite.rl.rllib.algorithm.REPORT_S", 0.0)
        for _ in range(updates):
            trainer.train()
            rows += trainer.ended
    return rows


@pytest.fixture
def start(ray_session) -> Any:
    """Starts trainers, and closes them in the end."""
    threads, trainers = torch.get_num_threads(), []

    def build(agent: Agent, seed: int = 0, workers: int = 0, copies: int = 4, matter: bool = True) -> Lockstep:
        spaces = EarlyLate().observation_space, EarlyLate().action_space
        trainer = agent.build(maker(seed, matter), *spaces, seed=seed, workers=workers, copies=copies, cpus=0.5)
        trainers.append(trainer)
        return trainer

    yield build
    for trainer in trainers:
        trainer.stop()
    torch.set_num_threads(threads)
