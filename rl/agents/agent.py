"""Builds an agent on RLlib: the base class of all agents."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from pyrite.rl.agents.trainer import AgentTrainer
from pyrite.rl.rllib.module import PolicyModule
from pyrite.rl.rllib.runner import LockstepRunner, set_threads

Make = Callable[[int, int], Any]
"""Makes the copies first … first + count − 1, as a `pyrite.rl.vector_environment.VectorEnvironment` or equivalent."""


class Agent(ABC):
    """Learns a sampling policy with a learner of RLlib. A subclass holds plain options and updates the learner.

    Attributes:
        learner: the class of the learner.
        quota: what each copy samples for an update: `{"steps": n}`, or `{"episodes": n}` for whole episodes.
        widths: options of `pyrite.rl.networks.PolicyNetwork` other than its defaults.
    """

    learner: ClassVar[type[Learner]]
    quota: Mapping[str, int]
    widths: Mapping[str, Any] = {}

    @abstractmethod
    def config(self) -> AlgorithmConfig:
        """Return the learner's configuration, with this agent's options."""

    @abstractmethod
    def update(self, learner: Any, episodes: list[SingleAgentEpisode], number: int) -> None:
        """Update the learner's weights.

        Args:
            episodes: what was sampled, by copy and time; with a quota of steps, parts of episodes.
            number: number of updates before this one.
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
        """Start learning.

        Args:
            make: makes copies of the environment; must be picklable with cloudpickle.
            observation_space, action_space: the spaces of one copy.
            seed: seed of weights and actions; `make` seeds the environment.
            workers: number of runners that are Ray actors, in the bundles of the placement group after the first if
                there is one; 0 steps the copies in this process.
            copies: number of copies of the environment over all runners, a multiple of their number.
            cpus: CPUs per runner; also the threads of this process, since sums must be divided in the same way.
        """
        set_threads(cpus)
        logging.getLogger("ray.rllib").setLevel(logging.ERROR)
        options = {"seed": seed, **self.widths}
        spec = RLModuleSpec(PolicyModule, observation_space, action_space, model_config=options)
        learner = self.learner(config=self.config().training(gamma=gamma).debugging(seed=seed), module_spec=spec)
        learner.build()
        share, actor = copies // max(1, workers), learner.module[DEFAULT_MODULE_ID].actor
        arguments = [(make, first, share, actor, seed, cpus) for first in range(0, copies, share)]
        if not workers:
            return AgentTrainer(self, learner, copies, [LockstepRunner(*arguments[0])])
        runner: Any = ray.remote(num_cpus=cpus, max_restarts=0)(LockstepRunner)
        group = get_current_placement_group()
        places = [
            PlacementGroupSchedulingStrategy(group, 1 + number, True) if group else "DEFAULT"
            for number in range(workers)
        ]
        runners = [
            runner.options(scheduling_strategy=place).remote(*of_runner)
            for place, of_runner in zip(places, arguments, strict=True)
        ]
        return AgentTrainer(self, learner, copies, runners)
