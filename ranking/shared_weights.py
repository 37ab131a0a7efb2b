"""Declares what a ranker asks where workers share its weights: that all of them make the same passes."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn


class SharedWeights(Protocol):
    """Workers that hold parts of one ranker (`ranking.sharding.Sharding`)."""

    def passes(self, tower: Any, count: int) -> int:
        """How many passes through a transformer all workers make next, of which this one needs `count`."""

    def finish(self) -> None:
        """Make empty passes until no worker reads any more."""

    def most(self, count: int) -> int:
        """The largest of all workers' counts."""

    def split_state(self, state: dict[str, Any], ranker: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """A training's state, with its tensors split as the ranker's weights are."""
