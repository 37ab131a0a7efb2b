"""Logs the events of runs, and how many steps of a lost run are repeated."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from cluster.output.event_log import EventLog


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
        earlier = unfinished(EventLog.read(events.storage))
        self._lost = {run: next(reversed(steps)) for run, steps in earlier.items()}
        self._started: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def started(self, name: str) -> None:
        """Log that a run starts, for the first time or again."""
        self._started[name] = time.monotonic()
        self.events.emit("run started", run=name)

    def reached(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Log a step and its numbers."""
        before = self._lost.pop(name, 0)
        if before:
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

    def failed(self, name: str, reason: str) -> None:
        """Log that a run has failed and is not retried."""
        self._emit("run failed", name, reason=reason, reached=self._reached.pop(name, 0))

    def stopped(self, name: str, reached: int, best: float, made_of: str) -> None:
        """Log that the scheduler of a search stopped a run."""
        self._lost.pop(name, None)
        self._reached.pop(name, None)
        spent = time.monotonic() - self._started.pop(name, time.monotonic())
        self._emit("run stopped", name, reached=reached, best=best, made_of=made_of, seconds=round(spent, 3))

    def ended(self, name: str, best: float | None) -> None:
        """Log that a run has a result. A run that was lost after its last step repeats nothing."""
        self._lost.pop(name, None)
        spent = time.monotonic() - self._started.pop(name, time.monotonic())
        self._emit("run ended", name, reached=self._reached.pop(name, None), best=best, seconds=round(spent, 3))

    def _emit(self, event: str, name: str, **facts: Any) -> None:
        self.events.emit(event, run=name, unit=self.unit, **facts)


def unfinished(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, dict[str, float]]]:
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
