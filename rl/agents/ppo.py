"""Proximal policy optimization."""

from __future__ import annotations

from typing import Any

from rl.agents.agent import Agent, check, check_rate
from rl.algorithms.ppo import LockstepPPOConfig


class PPO(Agent):
    """RLlib's PPO with the policy's network, clipped and without the KL term (Schulman et al. 2017, equation 7).

    Args:
        lr: of actor and critic.
        fragment: steps that each copy takes between two updates.
        epochs: passes over them.
        minibatch: steps of all copies a gradient is taken of; at most those of an update.
        clip: how far the ratio of new to old chances may move from 1 and still count.
        lam: λ of the generalised advantage estimate.
        value_weight: weight of the critic's squared error.
        entropy: weight of the policy's entropy. Advantages are brought to unit variance.
        channels, hidden: of the network (`rl.networks.PolicyNetwork`).
    """

    def __init__(
        self,
        lr: float = 2e-3,
        fragment: int = 128,
        epochs: int = 4,
        minibatch: int = 256,
        clip: float = 0.2,
        lam: float = 0.95,
        value_weight: float = 0.5,
        entropy: float = 0.02,
        channels: int = 16,
        hidden: int = 500,
    ) -> None:
        check_rate("lr", lr)
        sizes = {"fragment": fragment, "epochs": epochs, "minibatch": minibatch, "channels": channels, "hidden": hidden}
        for name, value in sizes.items():
            check(name, value, 1)
        check("clip", clip)
        check("value_weight", value_weight)
        check("entropy", entropy)
        check("lam", lam, 0, 1)
        self.lr, self.fragment, self.epochs, self.minibatch = lr, fragment, epochs, minibatch
        self.clip, self.lam, self.value_weight, self.entropy = clip, lam, value_weight, entropy
        self.channels, self.hidden = channels, hidden

    def config(self, copies: int) -> LockstepPPOConfig:
        config = LockstepPPOConfig()
        config.quota = {"steps": self.fragment}
        config.training(
            lr=self.lr,
            train_batch_size_per_learner=self.fragment * copies,
            num_epochs=self.epochs,
            minibatch_size=min(self.minibatch, self.fragment * copies),
            clip_param=self.clip,
            lambda_=self.lam,
            vf_loss_coeff=self.value_weight,
            entropy_coeff=self.entropy,
            use_kl_loss=False,
        )
        return config

    def network(self) -> dict[str, Any]:
        return {"channels": self.channels, "hidden": self.hidden}
