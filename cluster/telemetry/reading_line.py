"""Shows how many texts a transformer has read: a bar on a terminal, elsewhere a line every 30 seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pyrite.cluster.limits import LINE_EVERY_S
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.telemetry.live_table import duration
from pyrite.ranking.reading_progress import watched_reading


class ReadingLine:
    """The bar or the lines of what is read."""

    def __init__(self, console: Console, every: float = LINE_EVERY_S) -> None:
        self.console, self._every = console, every
        columns = TextColumn("reading texts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bar = Progress(*columns, console=console, transient=True)
        self._task: TaskID | None = None
        self._started, self._throttle = 0.0, Throttle(every)
        self._reached = 0

    def update(self, done: int, total: int) -> None:
        """Show that `done` of `total` texts were read."""
        if done < self._reached or not self._reached:
            self._started, self._throttle = time.monotonic(), Throttle(self._every)
            self._throttle.due()  # not before the first interval has passed
        self._reached = done if done < total else 0
        if self.console.is_terminal and not self.console.is_jupyter:
            self._show(done, total)
        elif done < total and self._throttle.due():
            spent = time.monotonic() - self._started
            left = duration(spent / done * (total - done))
            self.console.print(f"read {done:,} of {total:,} texts, {duration(spent)}, about {left} left", markup=False)

    def _show(self, done: int, total: int) -> None:
        if done >= total:
            self.close()
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=total)
        self._bar.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Remove the bar."""
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._bar.stop()
            self._task = None


@contextmanager
def reading_shown(console: Console) -> Iterator[None]:
    """A context in which texts that are read in this process are shown."""
    line = ReadingLine(console)
    try:
        with watched_reading(line.update):
            yield
    finally:
        line.close()
