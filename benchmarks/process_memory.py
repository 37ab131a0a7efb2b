"""Watches the memory and the processor time of a process and of all that it starts, from outside."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType

import psutil

EVERY = 0.1
"""Seconds between two looks."""


class Watched:
    """Peak memory in MiB.

    Attributes:
        own: anonymous memory of the largest process.
        whole: memory of the largest process including mapped files and shared memory.
        together: anonymous memory of all processes at one moment.
    """

    def __init__(self, pid: int) -> None:
        self.own = self.whole = self.together = 0.0
        self._times: dict[int, float] = {}
        self._process, self._over = psutil.Process(pid), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def processor(self) -> float:
        """Seconds of processor time of all processes, each as it was last seen."""
        return sum(self._times.values())

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            try:
                every = [self._process, *self._process.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for each in every:
                with contextlib.suppress(psutil.Error):
                    times = each.cpu_times()
                    self._times[each.pid] = times.user + times.system
            seen = [found for each in every if (found := resident(each.pid)) is not None]
            if seen:
                self.own = max(self.own, *(own for own, _ in seen), 0)
                self.whole = max(self.whole, *(whole for _, whole in seen), 0)
                self.together = max(self.together, sum(own for own, _ in seen))


def resident(pid: int) -> tuple[float, float] | None:
    """Return a process's anonymous and total memory in MiB; None if it has ended."""
    try:
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        own, whole = (int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS"))
    except (OSError, KeyError):
        return None
    return own, whole
