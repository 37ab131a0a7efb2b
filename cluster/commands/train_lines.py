"""Prints how far a training is, and hands it on to trackers."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape

from pyrite.cluster.executors.task import Watch
from pyrite.cluster.executors.waiting import log_wait
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.progress import Progress
from pyrite.cluster.telemetry.live_table import duration
from pyrite.cluster.training.study_runs import report_of


class TrainingLines:
    """The lines of one run.

    Args:
        watch: receives what is printed.
        events: the log of the output folder, or None.
    """

    def __init__(self, planned: Planned, console: Console, watch: Watch, events: EventLog | None) -> None:
        self.run, self.console, self.watch, self.events = planned.name, console, watch, events
        self.measure, self._started = planned.config["validation"]["measure"], time.perf_counter()
        self._batches, self._end = (Throttle(5), "\r") if console.is_terminal else (Throttle(60), "\n")

    def progress(self, progress: Progress) -> None:
        """Print an epoch, or now and then how far it is within one."""
        if progress.batches:
            self._within(progress)
            return
        fold = f"fold {progress.fold + 1}/{progress.folds} " if progress.folds > 1 else ""
        self.console.print(
            f"{fold}epoch {progress.epoch:2d}  loss {progress.loss:.4f}  {self.measure} {progress.validation:.4f}"
            f"  [dim]{time.perf_counter() - self._started:.0f} s[/]",
        )
        self.watch.progress(self.run, report_of(progress))

    def _within(self, progress: Progress) -> None:
        if not self._batches.due():
            return
        left = "" if progress.left is None else f"  at most {duration(progress.left)} left"
        self.console.print(
            f"[dim]epoch {progress.epoch + 1:2d}  batch {progress.batch:,} of {progress.batches:,}"
            f"  loss {progress.loss:.4f}{left}[/]",
            end=self._end,
        )

    def note(self, line: str) -> None:
        """Print a line of the run."""
        self.console.print(f"[dim]{escape(line)}[/]")
        self.watch.progress(self.run, {"notes": [line]})

    def wait(self, line: str | None) -> None:
        """Print what the run waits for; None if it waits no longer."""
        log_wait(line, lambda text: print_lines(self.console, text), self.events)
