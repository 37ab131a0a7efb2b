"""Gives RLlib the actor and the critic as one module."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchMultiCategorical
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from pyrite.rl.networks import PolicyNetwork


class PolicyModule(TorchRLModule, ValueFunctionAPI, InferenceOnlyAPI):
    """Two separate networks: the actor π(s, ·) and the critic v(s) (Cohen et al. 2019, figure 1). Runners have the
    actor alone.

    `model_config` holds `seed` of the weights and any of `channels`, `hidden` and `last` of
    `pyrite.rl.networks.PolicyNetwork`.
    """

    def setup(self) -> None:
        options = dict(self.model_config)
        generator = torch.Generator().manual_seed(options.pop("seed"))
        space = self.action_space
        if isinstance(space, gymnasium.spaces.MultiDiscrete):
            outputs, width = int(space.nvec.sum()), int(space.nvec.max())
            self.action_dist_cls = TorchMultiCategorical.get_partial_dist_cls(input_lens=space.nvec.tolist())
        else:
            outputs = width = int(space.n)
        # The running size of advantages, as a buffer so that it is saved with the weights.
        self.register_buffer("advantage_moments", torch.zeros(2))
        self.actor = PolicyNetwork(self.observation_space, outputs, generator, **options)
        self.critic = PolicyNetwork(
            self.observation_space, 1, generator, **options | {"width": width, "per_document": False}
        )

    def get_non_inference_attributes(self) -> list[str]:
        """Return what runners do without."""
        return ["advantage_moments", "critic"]

    def _forward(self, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.actor(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """v(s) of each row, shape [n]."""
        return self.critic(batch[Columns.OBS]).squeeze(-1)
