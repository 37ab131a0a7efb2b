"""Builds an agent on RLlib: the base class of all agents."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from pyrite.ranking.part import Part
from pyrite.ranking.threads import use_threads
from pyrite.rl.rllib.algorithm import Lockstep
from pyrite.rl.rllib.module import PolicyModule
from pyrite.rl.rllib.runner import LockstepRunner

Make = Callable[[Sequence[int]], Sequence[Any]]
"""Makes the copies of the environment that have these numbers (see `pyrite.rl.environment.SamplingEnvironment`)."""
PARALLEL = {
    "create_local_env_runner": False,
    "merge_env_runner_states": False,
    "broadcast_env_runner_states": False,
    "max_requests_in_flight_per_env_runner": math.inf,
}


class Agent(Part):
    """Learns a sampling policy by RLlib. A subclass holds plain options and specifies how RLlib's learners are updated.

    Attributes:
        learner: the class of the learner.
        quota: what each copy samples for an update: `{"steps": n}`, or `{"episodes": n}` for whole episodes.
        widths: options of `pyrite.rl.networks.PolicyNetwork` other than its defaults.
        learners: number of learners that are Ray actors. With 0 the learner is in the process of the Algorithm, and
            with 1 it learns the same; several average their gradients, which gives another agent.
    """

    learner: ClassVar[type[Learner]]
    quota: Mapping[str, int]
    widths: Mapping[str, Any] = {}
    learners: int = 0

    @abstractmethod
    def config(self) -> AlgorithmConfig:
        """Return the learner's configuration, with this agent's options."""

    @abstractmethod
    def update_arguments(
        self, episodes: list[SingleAgentEpisode], number: int, config: AlgorithmConfig
    ) -> Mapping[str, Any]:
        """Return the arguments of RLlib's `LearnerGroup.update` for an update; {} leaves the weights as they are.

        Args:
            episodes: what was sampled, by copy and time; with a quota of steps, parts of episodes.
            number: number of updates before this one.
            config: the configuration that `build` made.
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
        gpus: float = 0,
        custom: Mapping[str, float] | None = None,
    ) -> Lockstep:
        """Build RLlib's Algorithm.

        Args:
            make: makes copies of the environment; must be picklable with cloudpickle.
            observation_space, action_space: the spaces of one copy.
            seed: seed of weights and actions; `make` seeds the environment.
            workers: number of runners that are Ray actors, in the bundles of the placement group after the first if
                there is one; 0 steps the copies in this process.
            copies: number of copies of the environment over all runners, a multiple of their number.
            cpus: CPUs per runner and per learner; also the threads of this process, since sums must be divided in the
                same way.
            gpus: GPUs per runner and per learner that is a Ray actor, whole or in part.
            custom: other resources of the cluster's nodes per runner, by name.
        """
        use_threads(cpus)
        logging.getLogger("ray.rllib").setLevel(logging.CRITICAL)
        spec = RLModuleSpec(PolicyModule, observation_space, action_space, model_config={"seed": seed, **self.widths})
        options = {
            "agent": self,
            "make": lambda numbers: make(numbers),
            "quota": self.quota,
            "seed": seed,
            "cpus": cpus,
        }
        options["network"] = spec.build().actor.description()
        config = (
            self.config()
            .environment(env_config=options, observation_space=observation_space, action_space=action_space)
            .env_runners(
                env_runner_cls=LockstepRunner,
                num_env_runners=workers,
                num_envs_per_env_runner=copies // max(1, workers),
                num_cpus_per_env_runner=cpus,
                num_gpus_per_env_runner=gpus,
                custom_resources_per_env_runner=dict(custom or {}),
                **PARALLEL,
            )
            .learners(
                learner_class=self.learner,
                num_learners=self.learners,
                num_cpus_per_learner=cpus,
                num_gpus_per_learner=gpus,
            )
            .training(gamma=gamma)
            .rl_module(rl_module_spec=spec)
            .fault_tolerance(restart_failed_env_runners=True, delay_between_env_runner_restarts_s=0)
            .debugging(log_level="CRITICAL", log_sys_usage=False)
        )
        config.algo_class = Lockstep
        return config.build_algo()
