"""How an action is drawn: each from random numbers of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw(
    logits: NDArray[np.float32], sizes: list[int], seed: int, copy: int, decision: int
) -> tuple[NDArray[np.int64], float]:
    """One action of one copy, by inverse CDF in float64.

    The numbers depend on (seed, copy, decision) alone, so neither the number of runners nor an interrupt changes them.

    Args:
        logits: [Σ sizes].
        sizes: how many choices each pick of the action has; one number for a plain action.
        seed: of the learning.
        copy: index of the copy among all copies.
        decision: decisions that the copy took before this one, since learning began.

    Returns:
        The picks, int64 [len(sizes)], and ln π of them all.
    """
    uniform = np.random.default_rng([seed, copy, decision]).random(len(sizes))
    picks = np.empty(len(sizes), np.int64)
    total = 0.0
    for index, block in enumerate(np.split(logits.astype(np.float64), np.cumsum(sizes)[:-1])):
        chances = np.exp(block - block.max())
        below = np.cumsum(chances)
        # Rounding may leave the draw at the very end of the CDF.
        picks[index] = min(int(np.searchsorted(below, uniform[index] * below[-1], side="right")), len(block) - 1)
        total += float(np.log(chances[picks[index]] / below[-1]))
    return picks, total


def best(logits: NDArray[np.float32], sizes: list[int]) -> tuple[NDArray[np.int64], float]:
    """The most probable action, the first of equals, and ln π of it."""
    blocks = np.split(logits.astype(np.float64), np.cumsum(sizes)[:-1])
    picks = np.array([block.argmax() for block in blocks], np.int64)
    return picks, float(sum(block.max() - np.logaddexp.reduce(block) for block in blocks))
