"""Any other algorithm of RLlib's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import gymnasium
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from ranking.errors import BadInput
from rl.agents.agent import Agent, Make
from rl.agents.trainer import AgentTrainer
from rl.algorithms.module import PolicyModule
from rl.copies import Flattened


class RLlib(Agent):
    """An algorithm of RLlib's for discrete actions, by its class.

    Where its learner asks no more than logits and values, the policy's own network is used, and what it learns can be
    kept. Where it asks for more (Q-values, target networks), it sees observations as one row of numbers, learns
    RLlib's default network and serves to compare returns. It samples when RLlib says so, not in lockstep: one seed
    gives one result only with the same number of runners, and of an interrupted learning weights, optimizers and
    copies go on but replay buffers start empty.

    Args:
        algorithm: its class, e.g. `ray.rllib.algorithms.dqn.DQN`.
        options: of its config's `training`.
        sampling: of its config's `env_runners`.
    """

    def __init__(
        self, algorithm: str, options: Mapping[str, Any] | None = None, sampling: Mapping[str, Any] | None = None
    ) -> None:
        module, _, name = algorithm.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            raise BadInput(f"there is no {algorithm}", "agent.algorithm", "give a class, e.g. …ppo.PPO") from None
        if not (isinstance(found, type) and issubclass(found, Algorithm)):
            raise BadInput(f"{algorithm} is no algorithm of RLlib's", "agent.algorithm", "give a class, e.g. …ppo.PPO")
        self.algorithm: type[Algorithm] = found
        self.options, self.sampling = dict(options or {}), dict(sampling or {})
        needed = self.config(1).get_default_learner_class().rl_module_required_apis()
        self.own_network = all(issubclass(PolicyModule, interface) for interface in needed)

    def config(self, copies: int) -> AlgorithmConfig:
        config = self.algorithm.get_default_config()
        try:
            return config.training(**self.options).env_runners(**self.sampling)
        except TypeError as error:
            raise BadInput(str(error), "agent.options", f"see RLlib's {type(config).__name__}.training") from None

    def build(
        self, make: Make, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], **options: Any
    ) -> AgentTrainer:
        if self.own_network:
            return super().build(make, observation_space, action_space, **options)
        return super().build(
            lambda first, count: Flattened(make(first, count)),
            Flattened.space_of(observation_space),
            action_space,
            **options,
        )
