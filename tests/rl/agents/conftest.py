"""Trainers of agents on toys."""

from typing import Any

import pytest
import torch

from benchmarks.toys import EarlyLate, maker
from pyrite.rl.agents.agent import Agent
from pyrite.rl.agents.trainer import AgentTrainer


def play(trainer: AgentTrainer, updates: int) -> list[dict[str, Any]]:
    return [row for _ in range(updates) for row in trainer.update()]


@pytest.fixture
def start(ray_session) -> Any:
    """Starts trainers, and closes them in the end."""
    threads, trainers = torch.get_num_threads(), []

    def build(agent: Agent, seed: int = 0, workers: int = 0, copies: int = 4, matter: bool = True) -> AgentTrainer:
        spaces = EarlyLate().observation_space, EarlyLate().action_space
        trainer = agent.build(maker(seed, matter), *spaces, seed=seed, workers=workers, copies=copies, cpus=0.5)
        trainers.append(trainer)
        return trainer

    yield build
    for trainer in trainers:
        trainer.close()
    torch.set_num_threads(threads)
