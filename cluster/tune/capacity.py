"""Limits how many trials run at once to what the cluster has room for now: it may grow and shrink during a study."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.tune import Callback
from ray.tune.search import ConcurrencyLimiter

from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY

Capacity = Callable[[Mapping[str, float]], int | None]
"""How many trials fit into so many resources; None: Ray Tune finds out by itself."""


class CapacityLimiter(Callback):
    """Opens and closes a limiter as the cluster grows and shrinks.

    Args:
        limiter: of the search.
        capacity: says how many trials.
        every: seconds between two looks at the cluster.
    """

    def __init__(self, limiter: ConcurrencyLimiter, capacity: Capacity, every: float = EVERY) -> None:
        self.limiter, self.capacity, self._throttle = limiter, capacity, Throttle(every)

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        # Tune pickles its callbacks to restore an experiment; this one looks at the cluster of now.
        return (Callback, ())

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self._throttle.due():
            self.limiter.max_concurrent = self.capacity(ray.cluster_resources()) or sys.maxsize
