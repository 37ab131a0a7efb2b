"""Draws the table on screen while a study runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from cluster.output.duration import duration

SHOWN = 8
"""Running trials that are shown at once."""
PROGRESS = ("epoch", "max_epochs", "validation")


@dataclass
class Watched:
    """What is known of a trial that runs."""

    epoch: int = 0
    max_epochs: int = 0
    validation: float = float("nan")
    curve: list[float] = field(default_factory=list)


class LiveTable:
    """Progress, best and worst so far, and the time left. Quiet where the console is not a terminal.

    Args:
        console: what to draw on.
        total: runs of the study.
        done: how many of them were there before.
        measure: the validation measure's name.
        unit: what a trial counts as it goes on.
    """

    def __init__(self, console: Console, total: int, done: int, measure: str, unit: str = "epoch") -> None:
        self.unit = unit
        self.console, self.total, self.done, self.measure = console, total, done, measure
        self.before, self.failed, self.stopped, self.retried = done, 0, 0, 0
        self.started = time.monotonic()
        self.running: dict[str, Watched] = {}
        self.finished: dict[str, float] = {}
        self._bar = Progress(
            TextColumn("{task.completed}/{task.total} runs"),
            BarColumn(None),
            TextColumn("{task.description}"),
            expand=True,
        )
        self._task = self._bar.add_task("", total=total, completed=done)
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> LiveTable:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._live.stop()

    def render(self) -> Group:
        """The table of now, and the bar beneath it."""
        table = Table(expand=True, box=None, pad_edge=False)
        table.add_column("run", ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column(self.unit, justify="right")
        table.add_column(self.measure, justify="right")
        wide = self.console.width >= 90  # for names and curves
        if wide:
            table.add_column("", width=20)
        for name, watched in list(self.running.items())[:SHOWN]:
            limit = f"/{watched.max_epochs}" if watched.max_epochs else ""
            epoch = f"{watched.epoch}{limit}" if watched.epoch else "…"
            value = f"{watched.validation:.4f}" if watched.epoch else ""
            table.add_row(name, epoch, value, *([Text(spark(watched.curve[-20:]))] if wide else []))
        if len(self.running) > SHOWN:
            table.add_row(f"… and {len(self.running) - SHOWN} more")
        if self.finished:
            ranked = sorted(self.finished.items(), key=lambda item: -item[1])
            table.add_section()
            table.add_row(f"best   {ranked[0][0]}", "", f"{ranked[0][1]:.4f}")
            table.add_row(f"worst  {ranked[-1][0]}", "", f"{ranked[-1][1]:.4f}")
        self._bar.update(self._task, completed=self.done, description=self.outlook())
        return Group(table, self._bar)

    def outlook(self) -> str:
        """Time spent and time left, and what went wrong."""
        spent = time.monotonic() - self.started
        ran = self.done - self.before
        left = f", about {duration(spent / ran * (self.total - self.done))} left" if ran else ""
        trouble = f", {self.failed} failed" if self.failed else ""
        stopped = f", {self.stopped} stopped" if self.stopped else ""
        again = f", {self.retried} tried again" if self.retried else ""
        return f"{duration(spent)}{left}{trouble}{stopped}{again}"

    @property
    def states(self) -> dict[str, int]:
        """How many runs are in which state."""
        running, ended = len(self.running), self.done - self.failed - self.stopped
        waiting = max(self.total - self.done - running, 0)
        return {
            "waiting": waiting,
            "running": running,
            "done": ended,
            "failed": self.failed,
            "stopped": self.stopped,
        }

    def start(self, name: str) -> None:
        """A run starts, for the first time or again."""
        self.running[name] = Watched()

    def progress(self, name: str, report: Mapping[str, Any]) -> None:
        """A run has come so far: `epoch`, `max_epochs` and `validation`."""
        watched = self.running.setdefault(name, Watched())
        watched.epoch, watched.max_epochs, watched.validation = (report[key] for key in PROGRESS)
        watched.curve.append(watched.validation)

    def end(self, name: str, best: float) -> None:
        """A run has its result."""
        self.running.pop(name, None)
        self.finished[name] = best
        self.done += 1

    def stop(self, name: str) -> None:
        """The scheduler of a search has stopped a run."""
        self.running.pop(name, None)
        self.stopped += 1
        self.done += 1

    def fail(self, name: str) -> None:
        """A run has failed for good."""
        self.running.pop(name, None)
        self.failed += 1
        self.done += 1


def spark(values: list[float]) -> str:
    """A curve in one line of text."""
    if len(values) < 2:
        return ""
    values = [value for value in values if value == value]  # a run that diverged ends in nan
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join("▁▂▃▄▅▆▇█"[int((value - low) / ((high - low) or 1) * 7)] for value in values)
