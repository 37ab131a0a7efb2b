"""Learns by REINFORCE: from the returns of whole episodes, relative to a learned baseline."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from ray.rllib.core.columns import Columns
from torch import Tensor

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.rl.agents.policy_gradient import ENDS, PolicyGradientAgent, PolicyGradientLearner


class ReinforceLearner(PolicyGradientLearner):
    """Williams's REINFORCE with the critic as baseline b(s) (Cohen et al. 2019, equation 8).

    The target of v(s_t) is the return from there, G_t = r_t + γ·G_{t+1}; the actor moves by α_θ·(G_t − v(s_t))·∂ ln π,
    averaged over all steps. For an episode that was cut off, the critic's value of its last state replaces the rest of
    the return. If advantages are normalized, their mean over the update is subtracted first: a critic that starts at 0
    takes many episodes to reach the level of the returns, and until then every action would look good.
    """

    def centred(self, advantages: Tensor) -> Tensor:
        return advantages - advantages.mean()

    def targets(self, batch: dict[str, Any], next_values: Tensor) -> Tensor:
        rewards, ends = batch[Columns.REWARDS].tolist(), batch[ENDS].tolist()
        coming, returns = 0.0, []
        for reward, end, value in zip(reversed(rewards), reversed(ends), next_values.flip(0).tolist(), strict=True):
            coming = reward + self.config.gamma * (value if end else coming)
            returns.append(coming)
        return torch.tensor(returns[::-1], dtype=next_values.dtype, device=next_values.device)


class Reinforce(PolicyGradientAgent):
    """REINFORCE with a learned state value as baseline, updated after whole episodes (Williams 1992).

    Args:
        actor_lr: learning rate of the policy.
        critic_lr: learning rate of the baseline.
        optimizer: `adam` or `sgd`.
        normalize: whether advantages are divided by their running root mean square for the actor, so that `entropy` has
            the same weight for rewards of any size.
        entropy: weight of the policy's entropy.
        episodes: episodes of each copy between two updates.
        channels: channels of the kernels over the batch; 0 reads it without (see `pyrite.rl.networks.PolicyNetwork`).
        hidden: units of the first affine layer.
        learners: number of learners that are Ray actors; 0 learns in the process of the learning, with the same result
            as 1. Several share each update and average their gradients, which gives another agent.
    """

    learner = ReinforceLearner

    @checked
    def __init__(
        self,
        actor_lr: Annotated[float, Positive] = 3e-3,
        critic_lr: Annotated[float, Positive] = 1e-2,
        optimizer: Literal["adam", "sgd"] = "adam",
        normalize: bool = True,
        entropy: Annotated[float, NonNegative] = 0.03,
        episodes: Annotated[int, Positive] = 1,
        channels: Annotated[int, NonNegative] = 16,
        hidden: Annotated[int, Positive] = 500,
        learners: Annotated[int, NonNegative] = 0,
    ) -> None:
        super().__init__(
            {"episodes": episodes}, {"channels": channels, "hidden": hidden}, learners,
            actor_lr=actor_lr, critic_lr=critic_lr, optimizer=optimizer, normalize=normalize, entropy=entropy,
        )  # fmt: skip
