"""When the one-step actor-critic samples and updates."""

from __future__ import annotations

from rl.algorithms.policy_gradient import PolicyGradient, PolicyGradientConfig


class ActorCriticAlgorithm(PolicyGradient):
    """Updates as steps arrive: after every step of all copies, or every few (Cohen et al. 2019, algorithm 1)."""

    @classmethod
    def get_default_config(cls) -> PolicyGradientConfig:
        from rl.algorithms.actor_critic.config import ActorCriticConfig

        return ActorCriticConfig()
