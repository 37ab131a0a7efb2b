"""Measures how early relevant documents come, over all topics of a pool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool

WHOLE = 0
"""The budget that means the whole pool."""
SHARES = (50, 80, 90)
"""Per cent of the relevant documents whose cost is reported."""


def effort(pool: Pool, order: JudgingOrder) -> dict[str, float]:
    """Compute what an order of judging costs, in judgements per topic.

    Returns:
        area: under the curve of relevant documents found against the budget, as a share of the area under the curve of
            an order that finds all of them at once; to_50, to_80, to_90: the budget (judgements per topic) that finds
            that per cent.
    """
    total, curve = total_curve(pool, order)
    if not total:
        return {"area": float("nan")} | {f"to_{share}": float("nan") for share in SHARES}
    needed = {f"to_{share}": float(np.searchsorted(curve, share / 100 * total) + 1) for share in SHARES}
    return {"area": float(curve.mean() / total)} | needed


def total_curve(pool: Pool, order: JudgingOrder) -> tuple[int, NDArray[np.int64]]:
    """Count the relevant documents of all topics in the pool, and those found at each budget 1, 2, …."""
    relevant, budgets = pool.relevant[order.flat], int(order.sizes.max())
    if order.turns is None or not order.shared:
        gains = np.bincount(order.places[relevant], minlength=budgets)
        return int(gains.sum()), np.cumsum(gains)
    # The judgements of a topic are in the order of its turns.
    places = np.empty(len(order.turns), np.int64)
    places[np.argsort(order.turns, kind="stable")] = relevant
    found_so_far = np.cumsum(places)
    ends = np.minimum(np.arange(1, budgets + 1) * len(order.sizes), len(found_so_far)) - 1
    return int(places.sum()), found_so_far[ends]
