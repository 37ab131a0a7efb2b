"""Acts at random: the agent that every learned policy must beat."""

from __future__ import annotations

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rl.agents.actor_critic import ActorCriticLearner
from rl.agents.agent import Agent
from rl.agents.policy_gradient import PolicyGradient, PolicyGradientConfig


class UniformAlgorithm(PolicyGradient):
    """Never updates: with a network whose last layer is 0, all actions stay equally probable."""

    def learn(self, episodes: list[SingleAgentEpisode]) -> None:
        pass


class RandomAgent(Agent):
    """All actions equally probable, and nothing learned (Cohen et al. 2019, section 5.2)."""

    widths = {"channels": 1, "hidden": 1, "last": 0.0}

    def config(self, copies: int) -> PolicyGradientConfig:
        config = UniformAlgorithm.get_default_config()
        config.training(learner_class=ActorCriticLearner)  # RLlib always builds a learner
        return config
