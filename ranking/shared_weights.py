"""Declares the interface for workers that share a ranker's weights: all of them make the same passes."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn


class SharedWeights(Protocol):
    """Workers that hold parts of one ranker (`ranking.sharding.Sharding`)."""

    def passes(self, tower: Any, count: int) -> int:
        """Return the passes that all workers make next through a transformer, of which this one needs `count`."""

    def finish(self) -> None:
        """Make empty passes until all workers have finished."""

    def most(self, count: int) -> int:
        """Return the largest of all workers' counts."""

    def split_state(self, state: dict[str, Any], ranker: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return a training's state with its tensors split like the ranker's weights."""
