"""The updates of the one-step actor-critic."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.columns import Columns
from torch import Tensor

from rl.algorithms.policy_gradient import PolicyGradientLearner


class ActorCriticLearner(PolicyGradientLearner):
    """Equations 9–11 of Cohen et al. 2019, averaged over the rows of a batch.

    δ = r + γ·v(s') − v(s), where v(s') is 0 once the episode terminated but not where it was cut off; the critic
    moves by α_v·δ·∂v(s), the actor by α_θ·δ·∂ ln π(s, a).
    """

    def targets(self, batch: dict[str, Any], next_values: Tensor) -> Tensor:
        return batch[Columns.REWARDS] + self.config.gamma * next_values
