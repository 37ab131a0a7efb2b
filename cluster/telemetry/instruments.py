"""Telling Ray a number; where there is no Ray it costs a look and does nothing."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cluster.telemetry.catalogue import CATALOGUE, SECONDS

EVERY = 5.0
"""Seconds between two looks at what is measured. Ray's processes report every ten, and forget a gauge that is not set
again for twenty."""


def connected() -> bool:
    """Whether this process is part of a Ray cluster; does not import Ray to find out."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def tell(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge, add to a counter or observe in a histogram.

    What is no number is not told, and a counter is not added nothing to.

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
    """What takes a metric's numbers, made once a process."""
    from ray.util.metrics import Counter, Gauge, Histogram

    metric = CATALOGUE[name]
    if metric.kind == "gauge":
        return Gauge(name, metric.says, metric.tags).set
    if metric.kind == "counter":
        return Counter(name, metric.says, metric.tags).inc
    return Histogram(name, metric.says, SECONDS, metric.tags).observe


class Pace:
    """Whether it is time again: at once, and then every so many seconds.

    Args:
        every: seconds.
    """

    def __init__(self, every: float = EVERY) -> None:
        self.every, self._next = every, 0.0

    def due(self) -> bool:
        """Whether so many seconds have passed since this was last true."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.every
        return True


class Count:
    """A counter that is added to often and told seldom; for several threads.

    Args:
        name: of the catalogue.
        tags: of all that is added.
        every: seconds between two tellings.
    """

    def __init__(self, name: str, tags: Mapping[str, str], every: float = EVERY) -> None:
        self.name, self.tags = name, tags
        self._pace, self._lock, self._waiting = Pace(every), threading.Lock(), 0.0

    def add(self, amount: float) -> None:
        """Add to it."""
        with self._lock:
            self._waiting += amount
            if not self._pace.due():
                return
        self.flush()

    def flush(self) -> None:
        """Tell what was added since this was last done."""
        with self._lock:
            amount, self._waiting = self._waiting, 0.0
        tell(self.name, amount, self.tags)


@contextmanager
def looking(look: Callable[[], Any], every: float = EVERY) -> Iterator[None]:
    """Look every so many seconds, from a thread of its own, and once more at the end.

    What is looked at pays nothing for it, however often it changes.

    Args:
        look: tells what it sees.
        every: seconds.
    """
    ended = threading.Event()

    def keep_looking() -> None:
        while not ended.wait(every):
            look()

    thread = threading.Thread(target=keep_looking, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look()
