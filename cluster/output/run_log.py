"""Logs the events of runs, and how much of a lost run is done again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from cluster.output.event_log import EventLog


class RunLog:
    """Writes down what becomes of runs.

    Events, each with the name of the `run`: `run started`; `run reached` a step, with its `numbers`; `run lost`, with
    the `reason`, when it is tried again, or `run failed` when it is not, each with the step that it had `reached`;
    `run moved`, likewise, when its machine was to be taken away and it goes on elsewhere from where it was;
    `run went on`, with the first step after a loss or after an interrupt of the whole command, which `repeats` so many
    steps since its last kept state; `run ended`, or `run stopped` by the scheduler of a search.

    Args:
        events: of the output folder.
        unit: what a step is: epoch, seed or episode.
    """

    def __init__(self, events: EventLog, unit: str = "epoch") -> None:
        self.events, self.unit = events, unit
        self._lost = _unfinished(EventLog.read(events.storage))
        self._started: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def started(self, name: str) -> None:
        """It starts, for the first time or again."""
        self._started[name] = time.monotonic()
        self.events.emit("run started", run=name)

    def reached(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """It has come so far."""
        before = self._lost.pop(name, 0)
        if before:
            self._tell("run went on", name, after=step - 1, repeats=max(before - step + 1, 0))
        self._reached[name] = step
        self._tell("run reached", name, step=step, numbers=dict(numbers))

    def says(self, name: str, lines: Iterable[str]) -> None:
        """It has notes for people."""
        for line in lines:
            self.events.emit("run says", run=name, line=line)

    def lost(self, name: str, reason: str) -> None:
        """It is tried again, from its last kept state."""
        self._goes_back("run lost", name, reason)

    def moved(self, name: str, reason: str) -> None:
        """It goes on elsewhere, from the state that it has just kept."""
        self._goes_back("run moved", name, reason)

    def failed(self, name: str, reason: str) -> None:
        """It is not tried again."""
        self._tell("run failed", name, reason=reason, reached=self._reached.pop(name, 0))

    def stopped(self, name: str, reached: int, best: float, made_of: str) -> None:
        """The scheduler of a search has stopped it."""
        self._lost.pop(name, None)
        self._reached.pop(name, None)
        spent = time.monotonic() - self._started.pop(name, time.monotonic())
        self._tell("run stopped", name, reached=reached, best=best, made_of=made_of, seconds=round(spent, 3))

    def ended(self, name: str, best: float | None) -> None:
        """It has its result; one that was lost behind its last step repeats nothing."""
        self._lost.pop(name, None)
        spent = time.monotonic() - self._started.pop(name, time.monotonic())
        self._tell("run ended", name, reached=self._reached.pop(name, None), best=best, seconds=round(spent, 3))

    def _goes_back(self, event: str, name: str, reason: str) -> None:
        self._lost[name] = self._reached.pop(name, self._lost.get(name, 0))
        self._tell(event, name, reason=reason, reached=self._lost[name])

    def _tell(self, event: str, name: str, **facts: Any) -> None:
        self.events.emit(event, run=name, unit=self.unit, **facts)


def _unfinished(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How far the runs had come that an earlier command did not bring to an end."""
    reached: dict[str, int] = {}
    for event in events:
        if event["event"] == "run reached":
            reached[event["run"]] = int(event["step"])
        elif event["event"] in ("run ended", "run stopped"):
            reached.pop(event["run"], None)
    return reached
