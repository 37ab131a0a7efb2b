"""Logs the events of runs, and sums up from a log what was lost and how many steps were repeated."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console

from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import applying, counted

LOSSES = ("is lost", "is to be taken away")
"""Words of a run's messages that belong here."""
MAX_RUNS = 30
"""Runs that are listed one by one."""


class RunLog:
    """Logs the events of runs.

    Each event has the name of the `run`:

    - `run started`, for the first time or again.
    - `run reached` a step, with its `numbers`.
    - `run lost`, with the `reason` and the step that it had `reached`; it is retried. `run failed` if it is not.
    - `run moved`, likewise, if its node drains and it continues on another one from the same step.
    - `run went on`, after its first step after a loss or an interrupt, with the number of steps that it `repeats`.
    - `run ended`, or `run stopped` by the scheduler of a search.

    Args:
        unit: the unit of a step: epoch, seed or episode.
    """

    def __init__(self, events: EventLog, unit: str = "epoch") -> None:
        self.events, self.unit = events, unit
        earlier = unfinished_runs(EventLog.read(events.storage))
        self._lost = {run: next(reversed(steps)) for run, steps in earlier.items()}
        self._started: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def started(self, name: str) -> None:
        """Log that a run starts, for the first time or again."""
        self._started[name] = time.monotonic()
        self.events.emit("run started", run=name)

    def reached(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Log a step and its numbers."""
        if before := self._lost.pop(name, 0):
            self._emit("run went on", name, after=step - 1, repeats=max(before - step + 1, 0))
        self._reached[name] = step
        self._emit("run reached", name, step=step, numbers=dict(numbers))

    def says(self, name: str, lines: Iterable[str]) -> None:
        """Log a run's messages."""
        for line in lines:
            self.events.emit("run says", run=name, line=line)

    def lost(self, name: str, reason: str, moved: bool = False) -> None:
        """Log that a run is retried from its last state; or on another node, from a state that it has just saved."""
        self._lost[name] = self._reached.pop(name, self._lost.get(name, 0))
        self._emit("run moved" if moved else "run lost", name, reason=reason, reached=self._lost[name])

    def failed(self, name: str, reason: str, traceback: str | None = None) -> None:
        """Log that a run has failed and is not retried, with the traceback of the user's function."""
        self._emit("run failed", name, reason=reason, reached=self._reached.pop(name, 0), traceback=traceback)

    def stopped(self, name: str, reached: int, best: float, made_of: str) -> None:
        """Log that the scheduler of a search stopped a run."""
        self._end("run stopped", name, reached, best=best, made_of=made_of)

    def ended(self, name: str, best: float | None) -> None:
        """Log that a run has a result. A run that was lost after its last step repeats nothing."""
        self._end("run ended", name, self._reached.get(name), best=best)

    def _end(self, event: str, name: str, reached: int | None, **facts: Any) -> None:
        self._lost.pop(name, None)
        self._reached.pop(name, None)
        spent = time.monotonic() - self._started.pop(name, time.monotonic())
        self._emit(event, name, reached=reached, **facts, seconds=round(spent, 3))

    def _emit(self, event: str, name: str, **facts: Any) -> None:
        self.events.emit(event, run=name, unit=self.unit, **facts)


def unfinished_runs(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, dict[str, float]]]:
    """Return the numbers by run and step, from a log, of runs that an earlier command did not finish."""
    reached: dict[str, dict[int, dict[str, float]]] = {}
    for event in events:
        if event["event"] == "run reached":
            numbers = {key: float("nan") if value is None else value for key, value in event.get("numbers", {}).items()}
            steps, step = reached.setdefault(event["run"], {}), int(event["step"])
            steps.pop(step, None)  # a step that is repeated is the last one again
            steps[step] = numbers
        elif event["event"] in ("run ended", "run stopped"):
            reached.pop(event["run"], None)
    return reached


class _Failures:
    """A reader of the losses in a log, event by event."""

    def __init__(self) -> None:
        self.resumed = 0
        self.over = False
        self.unit = "epoch"
        self.lost, self.moved, self.repeated = Counter[str](), Counter[str](), Counter[str]()
        self.reasons: defaultdict[str, list[str]] = defaultdict(list)
        self.lines: list[str] = []

    def on_began(self, run: str, event: Mapping[str, Any]) -> None:
        self.over = False

    def on_resumed(self, run: str, event: Mapping[str, Any]) -> None:
        self.resumed += not self.over  # a finished command may be extended, or only reported again
        self.over = False

    def on_finished(self, run: str, event: Mapping[str, Any]) -> None:
        self.over = True

    def on_run_lost(self, run: str, event: Mapping[str, Any]) -> None:
        self.lost[run] += 1
        at = f"{event.get('unit', self.unit)} {event.get('reached', 0)}"
        self.reasons[run].append(f"at {at} ({event.get('reason', '')})")

    def on_run_moved(self, run: str, event: Mapping[str, Any]) -> None:
        self.moved[run] += 1

    def on_run_went_on(self, run: str, event: Mapping[str, Any]) -> None:
        self.unit = str(event.get("unit", self.unit))
        self.repeated[run] += int(event.get("repeats", 0))

    def on_lost(self, run: str, event: Mapping[str, Any]) -> None:
        self.lines.append(f"{event.get('says', '')}.")

    def on_run_says(self, run: str, event: Mapping[str, Any]) -> None:
        if any(sign in str(event.get("line", "")) for sign in LOSSES):
            self.lines.append(f"{run}: {event['line']}.")

    def head(self) -> list[str]:
        """Return a sentence for each kind of failure that happened."""
        runs, moves = counted(len(self.lost), "run"), counted(len(self.moved), "run")
        were, again = "was" if len(self.lost) == 1 else "were", counted(self.repeated.total(), self.unit)
        sentences = {
            f"It was interrupted and resumed {_times(self.resumed)}.": self.resumed,
            f"{runs} {were} stopped by an error or a lost process, {_times(self.lost.total())} in all.": self.lost,
            f"{moves} continued on another machine, {_times(self.moved.total())} in all, before a machine was "
            "taken away; nothing was lost.": self.moved,
            f"{again} had to be repeated; nothing is counted twice.": self.repeated.total(),
        }
        return applying(sentences)

    def of_runs(self) -> list[str]:
        """Return a line for each run that failed, and how many more there are."""
        failed = self.lost + self.moved + self.repeated
        runs = [run for run in dict.fromkeys([*self.lost, *self.moved, *self.repeated]) if failed[run]]
        more = [f"… and {counted(len(runs) - MAX_RUNS, 'more run')} (log.jsonl)."] if len(runs) > MAX_RUNS else []
        return [self._of_run(run) for run in runs[:MAX_RUNS]] + more

    def _of_run(self, run: str) -> str:
        repeated = f", {counted(self.repeated[run], self.unit)} again" if self.repeated[run] else ""
        went = {
            f"lost {'; '.join(self.reasons[run])}": self.lost[run],
            f"moved {_times(self.moved[run])}": self.moved[run],
        }
        what = ", ".join(applying(went)) or "interrupted"
        return f"{run}: {what}{repeated}."


_READ: dict[str, Callable[[_Failures, str, Mapping[str, Any]], None]] = {
    "began": _Failures.on_began,
    "resumed": _Failures.on_resumed,
    "finished": _Failures.on_finished,
    "run lost": _Failures.on_run_lost,
    "run moved": _Failures.on_run_moved,
    "run went on": _Failures.on_run_went_on,
    "lost": _Failures.on_lost,
    "run says": _Failures.on_run_says,
}
"""What reads an event, by its kind; others say nothing of failures."""


def failure_summary(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return sentences for reports; none if nothing was lost."""
    failures = _Failures()
    for event in events:
        if read := _READ.get(event["event"]):
            read(failures, str(event.get("run", "")), event)
    return failures.head() + failures.lines + failures.of_runs()


def print_failures(storage: Storage, console: Console) -> None:
    """Print how much a command lost and repeated, if anything; reports and the log have details."""
    for line in failure_summary(EventLog.read(storage))[:3]:
        console.print(line, style="dim", soft_wrap=True, markup=False)


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
