"""RLlib's PPO, sampled in lockstep."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rl.algorithms.lockstep import Lockstep


class PPOInLockstep(Lockstep, PPO):
    """RLlib's loss, advantages and minibatches; only when to sample is ours (Schulman et al. 2017)."""

    @classmethod
    def get_default_config(cls) -> LockstepPPOConfig:
        return LockstepPPOConfig()

    def learn(self, episodes: list[SingleAgentEpisode]) -> None:
        with _global_seed(self.config.seed, self.updates):
            self.learner_group.update(
                episodes=episodes,
                num_epochs=self.config.num_epochs,
                minibatch_size=self.config.minibatch_size,
                shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch,
            )


class LockstepPPOConfig(PPOConfig):
    """RLlib's options and `quota`, in steps (`Lockstep`)."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or PPOInLockstep)
        self.quota = {"steps": 128}


@contextmanager
def _global_seed(*numbers: int) -> Iterator[None]:
    """RLlib shuffles minibatches with global generators: seeded here by the update's number, so that one which
    follows a restart shuffles alike, and then put back as they were."""
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.random.set_rng_state(before[2])
