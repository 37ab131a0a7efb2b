"""What agents with two learning rates share: their options and their network."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.agents.agent import Agent, check, check_optimizer, check_rate
from rl.algorithms.policy_gradient import PolicyGradientConfig


class PolicyGradientAgent(Agent):
    """Base of actor-critic and REINFORCE.

    Args:
        actor_lr, critic_lr, optimizer, normalize, entropy: see `rl.algorithms.policy_gradient`.
        quota: what each copy gives for an update.
        channels, hidden: of the network (`rl.networks.PolicyNetwork`).
    """

    algorithm: ClassVar[type[PolicyGradientConfig]]
    unit: ClassVar[str]
    """What a quota is counted in: steps or episodes."""
    option: ClassVar[str]
    """The name of the option that says the quota."""

    def __init__(
        self,
        actor_lr: float,
        critic_lr: float,
        optimizer: str,
        normalize: bool,
        entropy: float,
        quota: int,
        channels: int,
        hidden: int,
    ) -> None:
        check_rate("actor_lr", actor_lr)
        check_rate("critic_lr", critic_lr)
        check_optimizer(optimizer)
        check("entropy", entropy)
        for name, value in {self.option: quota, "channels": channels, "hidden": hidden}.items():
            check(name, value, 1)
        self.options = {
            "actor_lr": actor_lr,
            "critic_lr": critic_lr,
            "optimizer": optimizer,
            "normalize": normalize,
            "entropy": entropy,
            "quota": {self.unit: quota},
        }
        self.widths = {"channels": channels, "hidden": hidden}

    def config(self, copies: int) -> PolicyGradientConfig:
        config = self.algorithm()
        for name, value in self.options.items():
            setattr(config, name, value)
        return config

    def network(self) -> dict[str, Any]:
        return self.widths
