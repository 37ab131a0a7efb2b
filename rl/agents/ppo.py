"""Learns by proximal policy optimization: RLlib's loss, sampled in lockstep."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPO as RLlibPPO
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rl.agents.agent import Agent, check, check_rate
from rl.rllib.lockstep import Lockstep


class LockstepPPO(Lockstep, RLlibPPO):
    """RLlib's loss, advantages and minibatches; only when to sample is ours (Schulman et al. 2017)."""

    @classmethod
    def get_default_config(cls) -> LockstepPPOConfig:
        return LockstepPPOConfig()

    def learn(self, episodes: list[SingleAgentEpisode]) -> None:
        with _global_seed(self.config.seed, self.updates):
            self.learner_group.update(
                episodes=episodes,
                num_epochs=self.config.num_epochs,
                # RLlib fills up a minibatch that is larger than the batch by repeating some of its steps.
                minibatch_size=min(self.config.minibatch_size, sum(map(len, episodes))),
                shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch,
            )


class LockstepPPOConfig(PPOConfig):
    """RLlib's options and `quota`, in steps or episodes (`Lockstep`)."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or LockstepPPO)
        self.quota = {"steps": 128}


class PPO(Agent):
    """RLlib's PPO with the policy's network, clipped and without the KL term (Schulman et al. 2017, equation 7).

    The critic's squared error is not clipped: RLlib's `vf_clip_param` of 10 has no gradient where the critic is off by
    more than √10, and returns of hundredths of average precision are that large.

    Args:
        lr: of actor and critic.
        fragment: steps that each copy takes between two updates. An episode that goes on is cut there, and the
            critic's value stands for the rest of its return.
        episodes: whole episodes that each copy finishes between two updates, in place of `fragment`.
        epochs: passes over them.
        minibatch: steps of all copies a gradient is taken of; at most those of an update.
        clip: how far the ratio of new to old chances may move from 1 and still count.
        lam: λ of the generalised advantage estimate.
        value_weight: weight of the critic's squared error.
        entropy: weight of the policy's entropy. Advantages are brought to unit variance.
        channels, hidden: of the network (`rl.networks.PolicyNetwork`).
    """

    def __init__(
        self,
        lr: float = 2e-3,
        fragment: int = 128,
        episodes: int | None = None,
        epochs: int = 4,
        minibatch: int = 256,
        clip: float = 0.2,
        lam: float = 0.95,
        value_weight: float = 0.5,
        entropy: float = 0.02,
        channels: int = 16,
        hidden: int = 500,
    ) -> None:
        check_rate("lr", lr)
        sizes = {"fragment": fragment, "epochs": epochs, "minibatch": minibatch, "channels": channels, "hidden": hidden}
        for name, value in sizes.items() if episodes is None else [*sizes.items(), ("episodes", episodes)]:
            check(name, value, 1)
        check("clip", clip)
        check("value_weight", value_weight)
        check("entropy", entropy)
        check("lam", lam, 0, 1)
        self.quota = {"steps": fragment} if episodes is None else {"episodes": episodes}
        self.lr, self.epochs, self.minibatch = lr, epochs, minibatch
        self.clip, self.lam, self.value_weight, self.entropy = clip, lam, value_weight, entropy
        self.channels, self.hidden = channels, hidden

    def config(self, copies: int) -> LockstepPPOConfig:
        config = LockstepPPOConfig()
        config.quota = self.quota
        config.training(
            lr=self.lr,
            train_batch_size_per_learner=max(self.minibatch, self.quota.get("steps", 0) * copies),
            num_epochs=self.epochs,
            minibatch_size=self.minibatch,
            clip_param=self.clip,
            vf_clip_param=math.inf,
            lambda_=self.lam,
            vf_loss_coeff=self.value_weight,
            entropy_coeff=self.entropy,
            use_kl_loss=False,
        )
        return config

    def network(self) -> dict[str, Any]:
        return {"channels": self.channels, "hidden": self.hidden}


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
