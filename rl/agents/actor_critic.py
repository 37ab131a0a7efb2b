"""The paper's agent."""

from __future__ import annotations

from typing import Literal

from rl.agents.policy_gradient import PolicyGradientAgent
from rl.algorithms.actor_critic.config import ActorCriticConfig


class ActorCritic(PolicyGradientAgent):
    """One-step actor-critic, updated as steps arrive (Cohen et al. 2019, equations 9–11).

    Args:
        actor_lr: α_θ.
        critic_lr: α_v.
        optimizer: adam, or sgd for the equations as they are printed.
        normalize: divide δ by its running root mean square for the actor, so that `entropy` weighs the same whatever
            the size of rewards. False leaves equation 11 as it is printed.
        entropy: weight of the policy's entropy beside δ. At 0 the noise of rewards alone makes the policy one-sided
            where nothing matters; at 0.03 it stays near uniform there (`benchmarks/agents.py`).
        fragment: steps that each copy takes between two updates.
        channels, hidden: of the network (`rl.networks.PolicyNetwork`).
    """

    algorithm = ActorCriticConfig
    unit = "steps"
    option = "fragment"

    def __init__(
        self,
        actor_lr: float = 1e-3,
        critic_lr: float = 1e-3,
        optimizer: Literal["adam", "sgd"] = "adam",
        normalize: bool = True,
        entropy: float = 0.03,
        fragment: int = 1,
        channels: int = 16,
        hidden: int = 500,
    ) -> None:
        super().__init__(actor_lr, critic_lr, optimizer, normalize, entropy, fragment, channels, hidden)
