"""Drawing from what a network says."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rl.state import Observation


@torch.no_grad()
def logits_of(actor: torch.nn.Module, observation: Observation) -> NDArray[np.float64]:
    """What an actor says of one observation. Shape [outputs]."""
    row = {name: torch.from_numpy(value)[None] for name, value in observation.items()}
    logits: NDArray[np.float64] = actor(row)[0].double().numpy()
    return logits


def draw_places(logits: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """The choices that uniform draws of 0 … 1 stand for, by the inverse of each row's distribution function.

    Args:
        logits: [rows, choices].
        uniform: [rows, picks].

    Returns:
        int64 [rows, picks].
    """
    edges = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    reached = edges[:, None, :] <= (uniform * edges[:, -1:])[:, :, None]
    return np.minimum(reached.sum(axis=2), logits.shape[1] - 1)
