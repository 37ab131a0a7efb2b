"""Draws the table on screen while a command runs."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from pyrite.cluster.limits import LINE_EVERY_S
from pyrite.cluster.output.throttle import Throttle, poll
from pyrite.cluster.telemetry.tracking.tracker import Status

MAX_SHOWN = 8
"""Running runs that are shown at once."""
SURE = 0.25
"""The part of a run from which its speed tells the time left better than an estimate before it."""


@dataclass
class WatchedRun:
    """The latest numbers of a run."""

    epoch: int = 0
    max_epochs: int = 0
    validation: float = float("nan")
    curve: list[float] = field(default_factory=list)
    share: float = 0.0
    """The share of its epochs that it has trained, 0 to 1."""


def _progress_of(run: WatchedRun) -> tuple[str, str]:
    """Return how far a run is, and what it has reached, for a line of the table."""
    if not run.epoch:
        return (f"{run.share:.0%}" if run.share else "…"), ""
    return f"{run.epoch}{f'/{run.max_epochs}' if run.max_epochs else ''}", f"{run.validation:.4f}"


class LiveTable:
    """Progress, best and worst so far, and the time left, on a terminal or in a notebook; elsewhere lines of it."""

    def __init__(self, console: Console, total: int, done: int, measure: str, unit: str = "epoch") -> None:
        self.unit = unit
        self.console, self.total, self.done, self.measure = console, total, done, measure
        self.waits = ""
        """Why runs wait for a node that the cluster does not have; empty if none does."""
        self.before, self.failed, self.stopped, self.retried = done, 0, 0, 0
        self.started = time.monotonic()
        self.first_run: float | None = None  # when it began, after texts and lists were prepared
        self.estimated: float | None = None  # the seconds of all runs, before any has ended
        self.running: dict[str, WatchedRun] = {}
        self.finished: dict[str, float] = {}
        columns = TextColumn("{task.completed}/{task.total} runs"), BarColumn(None), TextColumn("{task.description}")
        self._bar = Progress(*columns, expand=True)
        self._lines, self._printed = ExitStack(), (done, 0.0)
        self._task = self._bar.add_task("", total=total, completed=done)
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=2, transient=True)
        self._cell: Any = None
        self._throttle = Throttle(0.5)

    def __enter__(self) -> LiveTable:
        if self.console.is_jupyter:  # rich itself needs the widgets of another package there
            from IPython.display import display

            self._cell = display(self._as_text(), raw=True, display_id=True)
        elif self.console.is_terminal:
            self._live.start()
        elif not self.console.quiet:
            self._lines.enter_context(poll(self.print_line, LINE_EVERY_S, at_the_end=False))
        return self

    def _as_text(self) -> dict[str, str]:
        console = Console(file=io.StringIO(), width=100, emoji=False, force_jupyter=False, force_terminal=False)
        console.print(self.render())
        return {"text/plain": console.file.getvalue()}  # type: ignore[attr-defined]

    def _show(self, now: bool = False) -> None:
        """Renew the table in a notebook's cell; on a terminal it renews itself."""
        if self._cell is not None and (now or self._throttle.due()):
            self._cell.update(self._as_text(), raw=True)

    def __exit__(self, *reason: object) -> None:
        self._show(now=True)
        self._lines.close()
        self._live.stop()

    def print_line(self) -> None:
        """Print the progress as a line, if there is any since the last one."""
        reached = self.done, self._within
        if reached != self._printed:
            self._printed = reached
            self.console.print(f"{self.done} of {self.total} runs{self._begun()}, {self.outlook()}", markup=False)

    @property
    def _within(self) -> float:
        """The runs that are trained in part, as a number of whole runs."""
        return sum(watched.share for watched in list(self.running.values()))

    def _begun(self) -> str:
        """Return how far the current runs are; nothing if none has reported it."""
        shares = [f"{watched.share:.0%}" for watched in list(self.running.values())[:MAX_SHOWN] if watched.share]
        return f" (running: {', '.join(shares)})" if shares else ""

    def render(self) -> Group:
        """Return the current table, with the bar below it."""
        table = Table(expand=True, box=None, pad_edge=False)
        table.add_column("run", ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column(self.unit, justify="right")
        table.add_column(self.measure, justify="right")
        wide = self.console.width >= 90  # enough for names and curves
        if wide:
            table.add_column("", width=20)
        for name, watched in list(self.running.items())[:MAX_SHOWN]:
            table.add_row(name, *_progress_of(watched), *([Text(spark(watched.curve[-20:]))] if wide else []))
        if len(self.running) > MAX_SHOWN:
            table.add_row(f"… and {len(self.running) - MAX_SHOWN} more")
        if self.waits:
            table.add_row(Text(self.waits, overflow="fold", no_wrap=False))
        if self.finished:
            ranked = sorted(self.finished.items(), key=lambda item: -item[1])
            table.add_section()
            table.add_row(f"best   {ranked[0][0]}", "", f"{ranked[0][1]:.4f}")
            table.add_row(f"worst  {ranked[-1][0]}", "", f"{ranked[-1][1]:.4f}")
        self._bar.update(self._task, completed=self.done, description=self.outlook())
        return Group(table, self._bar)

    def outlook(self) -> str:
        """Return the time spent, the time left, and the numbers of failed, stopped and retried runs."""
        now, ran = time.monotonic(), self.done - self.before + self._within
        running = now - (self.started if self.first_run is None else self.first_run)
        rest = self.total - self.before - ran
        seconds = running / ran * rest if self.done > self.before or ran > SURE else None
        if seconds is None and self.estimated is not None:
            seconds = max(self.estimated - running, 0.0)
        left = "" if seconds is None else f", about {duration(seconds)} left"
        counts = {"failed": self.failed, "stopped": self.stopped, "retried": self.retried}
        return duration(now - self.started) + left + "".join(f", {n} {state}" for state, n in counts.items() if n)

    @property
    def states(self) -> dict[str, int]:
        """The number of runs in each state."""
        running, ended = len(self.running), self.done - self.failed - self.stopped
        waiting = max(self.total - self.done - running, 0)
        states = {"waiting": waiting, "running": running, "done": ended}
        return states | {"failed": self.failed, "stopped": self.stopped}

    def start(self, name: str) -> None:
        """Add a run that starts, for the first time or again."""
        self.first_run = self.first_run or time.monotonic()
        self.running[name] = WatchedRun()
        self._show()

    def progress(self, name: str, report: Mapping[str, Any]) -> None:
        """Update a run by its `epoch`, `max_epochs` and `validation`."""
        watched = self.running.setdefault(name, WatchedRun())
        watched.epoch, watched.max_epochs = report["epoch"], report["max_epochs"]
        watched.validation = report["validation"]
        watched.curve.append(watched.validation)
        self._show()

    def within(self, name: str, share: float) -> None:
        """Update a run between two validations, by the share of its epochs that it has trained."""
        self.running.setdefault(name, WatchedRun()).share = share
        self._show()

    def end(self, name: str, best: float | None = None, status: Status = "done") -> None:
        """Count a run that has a result, with its best validation if it has one; that failed and is not retried; or
        that the scheduler of a search stopped.
        """
        if best is not None:
            self.finished[name] = best
        self.failed += status == "failed"
        self.stopped += status == "stopped"
        self.running.pop(name, None)
        self.done += 1
        self._show()


def spark(values: list[float]) -> str:
    """Draw a curve in one line of text."""
    if len(values) < 2:
        return ""
    values = [value for value in values if value == value]  # a run that diverged ends in nan
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join("▁▂▃▄▅▆▇█"[int((value - low) / ((high - low) or 1) * 7)] for value in values)


def duration(seconds: float) -> str:
    """Format seconds as 45 s, 3 min or 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
