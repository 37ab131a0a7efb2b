"""The updates of REINFORCE."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.core.columns import Columns
from torch import Tensor

from rl.algorithms.policy_gradient import ENDS, PolicyGradientLearner


class ReinforceLearner(PolicyGradientLearner):
    """Williams's REINFORCE with the critic as baseline b(s) (Cohen et al. 2019, equation 8).

    The target of v(s_t) is the return from there, G_t = r_t + γ·G_{t+1}; the actor moves by
    α_θ·(G_t − v(s_t))·∂ ln π, averaged over all steps. An episode that was cut off (a host was lost) goes on with the
    critic's value of its last state. Where advantages are normalized their mean over the update is taken off first: a
    critic that starts at 0 takes many episodes to find the level of the returns, and until then every action would
    look good.
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
