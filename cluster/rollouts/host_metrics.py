"""What a ranker host tells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.telemetry.instruments import EVERY, Count, Pace, tell


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
        self._pace, self._busy = Pace(every), Count("pyrite_host_busy_seconds_total", self.tags, every)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The host works for somebody."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._busy.add(time.perf_counter() - started)
            if self._pace.due():
                tell("pyrite_host_copies", self.copies, self.tags)
