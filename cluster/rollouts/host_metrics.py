"""Records the metrics of a ranker host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY, ThrottledCounter, record


class HostMetrics:
    """How busy a host is.

    Args:
        host: its name.
        every: seconds between two tellings.

    Attributes:
        copies: rankers that it holds now.
    """

    def __init__(self, host: str, every: float = EVERY) -> None:
        self.tags = {"host": host}
        self.copies = 0
        self._throttle, self._busy = (
            Throttle(every),
            ThrottledCounter("pyrite_host_busy_seconds_total", self.tags, every),
        )

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The host works for somebody."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._busy.add(time.perf_counter() - started)
            if self._throttle.due():
                record("pyrite_host_copies", self.copies, self.tags)
