"""Learns by one-step actor-critic: Cohen et al. 2019's agent, updated as steps arrive."""

from __future__ import annotations

from typing import Any, Literal

from ray.rllib.core.columns import Columns
from torch import Tensor

from rl.agents.policy_gradient import PolicyGradientAgent, PolicyGradientLearner


class ActorCriticLearner(PolicyGradientLearner):
    """Equations 9–11 of Cohen et al. 2019, averaged over the rows of a batch.

    δ = r + γ·v(s') − v(s), where v(s') is 0 once the episode terminated but not where it was cut off; the critic
    moves by α_v·δ·∂v(s), the actor by α_θ·δ·∂ ln π(s, a).
    """

    def targets(self, batch: dict[str, Any], next_values: Tensor) -> Tensor:
        return batch[Columns.REWARDS] + self.config.gamma * next_values


class ActorCritic(PolicyGradientAgent):
    """One-step actor-critic, updated after every step of all copies (Cohen et al. 2019, algorithm 1, equations 9–11).

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

    learner = ActorCriticLearner
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
