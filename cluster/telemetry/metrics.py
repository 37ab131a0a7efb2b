"""Records the metrics of the catalogue with Ray, and names actors as its dashboard shows them."""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable, Mapping

from pyrite.cluster.executors.session import connected
from pyrite.cluster.lazy import ray
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.telemetry.catalogue import CATALOGUE, SECONDS

EVERY = 5.0
"""Seconds between two records. Ray's processes report every ten seconds, and drop a gauge that was not set for
twenty."""


def record(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge, add to a counter or observe in a histogram. NaN and increments of zero are skipped."""
    metric = CATALOGUE[name]
    if not connected() or value != value or (metric.kind == "counter" and value <= 0):
        return
    # Ray accepts only ASCII, and names of folders may have other letters.
    plain = {key: tag.encode("ascii", "backslashreplace").decode() for key, tag in tags.items()}
    instrument(name)(float(value), plain)


@functools.cache
def instrument(name: str) -> Callable[[float, dict[str, str]], None]:
    """Return the method of a Ray metric that receives its values, created once per process."""
    metric = CATALOGUE[name]
    if metric.kind == "gauge":
        return ray.util.metrics.Gauge(name, metric.description, metric.tags).set
    if metric.kind == "counter":
        return ray.util.metrics.Counter(name, metric.description, metric.tags).inc
    return ray.util.metrics.Histogram(name, metric.description, SECONDS, metric.tags).observe


class ThrottledCounter:
    """A counter that is increased often and recorded rarely; safe for several threads."""

    def __init__(self, name: str, tags: Mapping[str, str], every: float = EVERY) -> None:
        self.name, self.tags = name, tags
        self._throttle, self._lock, self._waiting = Throttle(every), threading.Lock(), 0.0

    def add(self, amount: float) -> None:
        """Add an amount."""
        with self._lock:
            self._waiting += amount
            if not self._throttle.due():
                return
        self.flush()

    def flush(self) -> None:
        """Record the amounts since the last record."""
        with self._lock:
            amount, self._waiting = self._waiting, 0.0
        record(self.name, amount, self.tags)


def own_name(otherwise: str) -> str:
    """Return the name of this process's actor, or `otherwise` if it is no actor or has no name."""
    if not connected():
        return otherwise

    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:  # in a driver Ray would log a warning
        return otherwise
    return context.get_actor_name() or otherwise


def unique(name: str) -> str:
    """Return a unique name, since Ray refuses the name of an actor that is still ending."""
    return f"{name}#{uuid.uuid4().hex[:6]}"
