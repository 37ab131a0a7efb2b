"""Sampling without learning."""

from __future__ import annotations

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rl.algorithms.actor_critic.config import ActorCriticConfig
from rl.algorithms.lockstep import Lockstep


class UniformAlgorithm(Lockstep):
    """Never updates: with a network whose last layer is 0, every action stays as probable as another."""

    @classmethod
    def get_default_config(cls) -> ActorCriticConfig:
        return ActorCriticConfig(algo_class=cls)

    def learn(self, episodes: list[SingleAgentEpisode]) -> None:
        pass
