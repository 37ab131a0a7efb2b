"""When REINFORCE samples and updates."""

from __future__ import annotations

from rl.algorithms.policy_gradient import PolicyGradient, PolicyGradientConfig


class ReinforceAlgorithm(PolicyGradient):
    """Updates after whole episodes, as many of each copy."""

    @classmethod
    def get_default_config(cls) -> PolicyGradientConfig:
        from rl.algorithms.reinforce.config import ReinforceConfig

        return ReinforceConfig()
