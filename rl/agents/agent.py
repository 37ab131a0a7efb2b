"""Builds an agent on RLlib: the base class of all agents."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ranking.errors import BadInput
from rl.agents.trainer import AgentTrainer
from rl.rllib.module import PolicyModule
from rl.rllib.runner import LockstepRunner, set_threads

Make = Callable[[int, int], Any]
"""Makes the copies first … first + count − 1, as a `rl.vector_environment.VectorEnvironment` or equivalent."""


class Agent(ABC):
    """Learns a sampling policy with RLlib. A subclass holds plain options and configures its algorithm.

    Attributes:
        widths: options of `rl.networks.PolicyNetwork` other than its defaults.
    """

    widths: Mapping[str, Any] = {}

    @abstractmethod
    def config(self, copies: int) -> AlgorithmConfig:
        """Return the algorithm's configuration, with this agent's options.

        Args:
            copies: number of copies of the environment, over all runners.
        """

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
    ) -> AgentTrainer:
        """Start learning. Ray must run.

        Args:
            make: makes copies of the environment; must be picklable with cloudpickle.
            observation_space, action_space: the spaces of one copy.
            seed: seed of weights and actions; `make` seeds the environment.
            gamma: γ, from 0 to 1.
            workers: number of runners that are Ray actors; 0 steps the copies in this process.
            copies: number of copies of the environment over all runners.
            cpus: CPUs per runner; also the threads of this process, since sums must be divided in the same way.

        Raises:
            BadInput: if an option is out of its range.
        """
        if copies < 1 or workers < 0:
            raise BadInput(f"{copies} copies on {workers} runners", "copies", "give at least one copy")
        if copies % max(1, workers):
            raise BadInput(
                f"{copies} copies can't be divided equally among {workers} runners",
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
            # RLlib makes deep copies of its configuration repeatedly; a function is not copied.
            env_config={"make": lambda first, count: make(first, count)},
            disable_env_checking=True,
        )
        config.env_runners(
            env_runner_cls=LockstepRunner,
            num_env_runners=workers,
            num_envs_per_env_runner=copies // max(1, workers),
            num_cpus_per_env_runner=cpus,
        )
        config.learners(num_learners=0)  # it is in this process
        config.training(gamma=gamma)
        config.debugging(seed=seed, log_level="ERROR", log_sys_usage=False)  # the usage costs half a second at the end
        config.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
        config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=0)
        config.rl_module(rl_module_spec=RLModuleSpec(PolicyModule, model_config={"seed": seed, **self.widths}))
        logging.getLogger("ray.rllib").setLevel(logging.ERROR)
        return AgentTrainer(config.build_algo())
