"""Learning from whole episodes."""

from __future__ import annotations

from typing import Any, Literal

from rl.agents.agent import Agent, check, check_optimizer, check_rate
from rl.algorithms.reinforce.config import ReinforceConfig


class Reinforce(Agent):
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
        check_rate("actor_lr", actor_lr)
        check_rate("critic_lr", critic_lr)
        check_optimizer(optimizer)
        check("entropy", entropy)
        for name, value in {"episodes": episodes, "channels": channels, "hidden": hidden}.items():
            check(name, value, 1)
        self.actor_lr, self.critic_lr, self.optimizer = actor_lr, critic_lr, optimizer
        self.normalize, self.entropy = normalize, entropy
        self.episodes, self.channels, self.hidden = episodes, channels, hidden

    def config(self, copies: int) -> ReinforceConfig:
        config = ReinforceConfig()
        config.actor_lr, config.critic_lr = self.actor_lr, self.critic_lr
        config.optimizer, config.normalize, config.entropy = self.optimizer, self.normalize, self.entropy
        config.quota = {"episodes": self.episodes}
        return config

    def network(self) -> dict[str, Any]:
        return {"channels": self.channels, "hidden": self.hidden}
