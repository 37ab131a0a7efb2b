"""Acts at random: the agent that every learned policy must beat."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from pyrite.rl.agents.actor_critic import ActorCriticLearner
from pyrite.rl.agents.policy_gradient import PolicyGradientAgent


class RandomAgent(PolicyGradientAgent):
    """All actions equally probable, and nothing learned (Cohen et al. 2019, section 5.2)."""

    learner = ActorCriticLearner

    def __init__(self) -> None:
        # With a last layer of 0, all actions are equally probable.
        widths = {"channels": 1, "hidden": 1, "last": 0.0}
        super().__init__({"steps": 1}, widths, actor_lr=0.0, critic_lr=0.0, optimizer="sgd")

    def update_arguments(self, episodes: list[SingleAgentEpisode], number: int, config: AlgorithmConfig) -> Any:
        return {}
