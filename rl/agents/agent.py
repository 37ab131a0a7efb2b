"""Builds an agent on RLlib: the base class of all agents."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import gymnasium
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ranking.errors import BadInput
from rl.agents.trainer import AgentTrainer
from rl.rllib.module import PolicyModule
from rl.rllib.runner import LockstepRunner, set_threads

Make = Callable[[int, int], Any]
"""Makes the copies first … first + count − 1 (`rl.copies.Copies`, or what has its methods)."""


class Agent(ABC):
    """Who learns the sampling policy, and how. A subclass holds plain options and names its algorithm."""

    @abstractmethod
    def config(self, copies: int) -> AlgorithmConfig:
        """The algorithm's configuration, with this agent's options.

        Args:
            copies: of the environment, over all runners.
        """

    def network(self) -> dict[str, Any]:
        """Options of `PolicyNetwork`; {} takes its defaults."""
        return {}

    def build(
        self,
        make: Make,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        seed: int = 0,
        gamma: float = 0.995,
        workers: int = 0,
        copies: int = 8,
        cpus: float = 1,
        gpus: float = 0,
    ) -> AgentTrainer:
        """Start learning. Ray must run.

        Args:
            make: makes copies of the environment; picklable with cloudpickle.
            observation_space, action_space: of one copy.
            seed: of weights and actions; the environment's own seeds are `make`'s business.
            gamma: γ, from 0 to 1.
            workers: runners that are Ray actors; 0 steps the copies in this process.
            copies: of the environment over all runners.
            cpus: that each runner has; also the threads of this process, since sums must be shared out alike.
            gpus: that the learner, which is in this process, has.

        Raises:
            BadInput: where an option can't be.
        """
        if copies < 1 or workers < 0:
            raise BadInput(f"{copies} copies on {workers} runners", "copies", "give at least one copy")
        if copies % max(1, workers):
            raise BadInput(
                f"{copies} copies can't be shared out equally among {workers} runners",
                "copies",
                "give a multiple of the runners",
            )
        if not 0 <= gamma <= 1:
            raise BadInput(f"γ is {gamma}", "gamma", "give a number from 0 to 1")
        if seed < 0:
            raise BadInput(f"seed is {seed}", "seed", "give a whole number from 0")
        set_threads(cpus)
        config = self.config(copies)
        config.environment(
            observation_space=observation_space,
            action_space=action_space,
            # RLlib copies its configuration deeply, again and again, and a function is not copied.
            env_config={"make": lambda first, count: make(first, count)},
            disable_env_checking=True,
        )
        config.env_runners(
            env_runner_cls=LockstepRunner,
            num_env_runners=workers,
            num_envs_per_env_runner=copies // max(1, workers),
            num_cpus_per_env_runner=cpus,
        )
        config.learners(num_learners=0, num_gpus_per_learner=gpus)
        config.training(gamma=gamma)
        config.debugging(seed=seed, log_level="ERROR", log_sys_usage=False)  # the usage costs half a second at the end
        config.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
        config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=0)
        config.rl_module(rl_module_spec=RLModuleSpec(PolicyModule, model_config={"seed": seed, **self.network()}))
        logging.getLogger("ray.rllib").setLevel(logging.ERROR)
        return AgentTrainer(config.build_algo())


def check(name: str, value: float, least: float = 0.0, most: float = math.inf) -> None:
    """Refuse an option outside its bounds, both included.

    Raises:
        BadInput: saying so.
    """
    if not least <= value <= most:
        bounds = f"from {least:g} up" if most == math.inf else f"from {least:g} to {most:g}"
        raise BadInput(f"{name} is {value}", f"agent.{name}", f"give a number {bounds}")


def check_rate(name: str, value: float) -> None:
    """Refuse a learning rate that isn't above 0."""
    if not 0 < value < math.inf:
        raise BadInput(f"{name} is {value}", f"agent.{name}", "give a number above 0")
