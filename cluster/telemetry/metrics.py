"""Records the metrics of the catalogue with Ray; without a running Ray it does nothing."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping

from cluster.executors.session import connected
from cluster.output.throttle import Throttle
from cluster.telemetry.catalogue import CATALOGUE, SECONDS

EVERY = 5.0
"""Seconds between two readings of what is measured. Ray's processes report every ten, and forget a gauge
not set again for twenty."""


def record(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge, add to a counter or observe in a histogram.

    NaN is left out, and so is nothing that a counter would be increased by.

    Args:
        name: of the catalogue.
        value: in the metric's unit.
        tags: a value for each of the metric's tags.
    """
    metric = CATALOGUE[name]
    if not connected() or value != value or (metric.kind == "counter" and value <= 0):
        return
    # Ray takes ASCII alone; folders are called as people like.
    plain = {key: tag.encode("ascii", "backslashreplace").decode() for key, tag in tags.items()}
    instrument(name)(float(value), plain)


@functools.cache
def instrument(name: str) -> Callable[[float, dict[str, str]], None]:
    """The method of a Ray metric that takes its numbers; made once a process."""
    from ray.util.metrics import Counter, Gauge, Histogram

    metric = CATALOGUE[name]
    if metric.kind == "gauge":
        return Gauge(name, metric.says, metric.tags).set
    if metric.kind == "counter":
        return Counter(name, metric.says, metric.tags).inc
    return Histogram(name, metric.says, SECONDS, metric.tags).observe


class ThrottledCounter:
    """A counter that is increased often and recorded seldom; for several threads.

    Args:
        name: of the catalogue.
        tags: of all that is added.
        every: seconds between two records.
    """

    def __init__(self, name: str, tags: Mapping[str, str], every: float = EVERY) -> None:
        self.name, self.tags = name, tags
        self._throttle, self._lock, self._waiting = Throttle(every), threading.Lock(), 0.0

    def add(self, amount: float) -> None:
        """Add to it."""
        with self._lock:
            self._waiting += amount
            if not self._throttle.due():
                return
        self.flush()

    def flush(self) -> None:
        """Record what was added since this was last done."""
        with self._lock:
            amount, self._waiting = self._waiting, 0.0
        record(self.name, amount, self.tags)
