"""Learning from whole episodes."""

from __future__ import annotations

from typing import Literal

from rl.agents.policy_gradient import PolicyGradientAgent
from rl.algorithms.reinforce.config import ReinforceConfig


class Reinforce(PolicyGradientAgent):
    """REINFORCE with a learned state value as baseline, updated after whole episodes (Williams 1992).

    Args:
        actor_lr, critic_lr: learning rates of the policy and of the baseline.
        optimizer: adam or sgd.
        normalize: divide advantages by their running root mean square for the actor, so that `entropy` weighs the
            same whatever the size of rewards.
        entropy: weight of the policy's entropy.
        episodes: that each copy finishes between two updates.
        channels, hidden: of the network (`rl.networks.PolicyNetwork`).
    """

    algorithm = ReinforceConfig
    unit = "episodes"
    option = "episodes"

    def __init__(
        self,
        actor_lr: float = 3e-3,
        critic_lr: float = 1e-2,
        optimizer: Literal["adam", "sgd"] = "adam",
        normalize: bool = True,
        entropy: float = 0.03,
        episodes: int = 1,
        channels: int = 16,
        hidden: int = 500,
    ) -> None:
        super().__init__(actor_lr, critic_lr, optimizer, normalize, entropy, episodes, channels, hidden)
