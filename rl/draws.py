"""Draws actions from the outputs of a policy network."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.rl.state import Observation


@torch.no_grad()
def logits_of(actor: torch.nn.Module, observation: Observation) -> NDArray[np.float64]:
    """Return an actor's logits for one observation. Shape [outputs]."""
    row = {name: torch.from_numpy(value)[None] for name, value in observation.items()}
    return actor(row)[0].double().numpy()


def inverse_cdf(logits: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return choices at uniform draws [rows, picks], by the inverse of each row's distribution function."""
    edges = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    reached = edges[:, None, :] <= (uniform * edges[:, -1:])[:, :, None]
    # Rounding may leave a draw at the very end of the distribution function.
    return np.minimum(reached.sum(axis=2), logits.shape[1] - 1)


def draw_action(logits: NDArray[np.floating], seed: int, copy: int, decision: int) -> tuple[NDArray[np.int64], float]:
    """Draw one action of one copy of the environment: its picks [picks], and ln π of all of them.

    Its random numbers depend on (seed, copy, decision) only, so neither the number of runners nor an interrupt changes
    them.

    Args:
        logits: [picks, choices]; a plain action is one pick.
        decision: number of decisions that the copy has taken before, since learning began.
    """
    exact = logits.astype(np.float64)
    uniform = np.random.default_rng([seed, copy, decision]).random((len(exact), 1))
    picks = inverse_cdf(exact, uniform)
    chosen = np.take_along_axis(exact, picks, 1)[:, 0]
    return picks[:, 0], float((chosen - np.logaddexp.reduce(exact, axis=1)).sum())
