"""The paper's agent."""

from __future__ import annotations

from typing import Any, Literal

from rl.agents.agent import Agent, check, check_optimizer, check_rate
from rl.algorithms.actor_critic.config import ActorCriticConfig


class ActorCritic(Agent):
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
        check_rate("actor_lr", actor_lr)
        check_rate("critic_lr", critic_lr)
        check_optimizer(optimizer)
        check("entropy", entropy)
        for name, value in {"fragment": fragment, "channels": channels, "hidden": hidden}.items():
            check(name, value, 1)
        self.actor_lr, self.critic_lr, self.optimizer = actor_lr, critic_lr, optimizer
        self.normalize, self.entropy = normalize, entropy
        self.fragment, self.channels, self.hidden = fragment, channels, hidden

    def config(self, copies: int) -> ActorCriticConfig:
        config = ActorCriticConfig()
        config.actor_lr, config.critic_lr = self.actor_lr, self.critic_lr
        config.optimizer, config.normalize, config.entropy = self.optimizer, self.normalize, self.entropy
        config.quota = {"steps": self.fragment}
        return config

    def network(self) -> dict[str, Any]:
        return {"channels": self.channels, "hidden": self.hidden}
