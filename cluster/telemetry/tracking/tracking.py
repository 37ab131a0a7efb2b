"""Passes events of runs to the trackers, in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

from rich.console import Console

from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import option
from pyrite.cluster.config.secrets import concealed, concealed_in
from pyrite.cluster.config.trust import Trust
from pyrite.cluster.limits import TRACKER_CLOSE_TIMEOUT_S
from pyrite.cluster.output.event_log import EventLog, reason
from pyrite.cluster.output.run_log import unfinished_runs
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.telemetry.tracking.tracker import Status, TrackedRun, Tracker


def trackers(nodes: Mapping[str, Any], trust: Trust) -> list[Tracker]:
    """Build the trackers of a configuration's group `track`, always with TensorBoard."""
    named = {**option("track", "tensorboard"), **nodes}
    built: list[Tracker] = [build(node, f"track.{name}", trust=trust) for name, node in named.items()]
    for tracker in built:
        tracker.check()
    return built


@contextmanager
def tracked(
    built: Sequence[Tracker], storage: Storage, console: Console, verb: str, resumed: bool, **facts: Any
) -> Iterator[Tracking]:
    """Track the runs of a command, and write its log."""
    events = EventLog(storage)
    with events.session(verb, resumed, **facts):
        tracking = Tracking(built, events, lambda line: console.print(line, markup=False))
        try:
            yield tracking
        finally:
            tracking.close()


class Tracking:
    """Passes events to the trackers from a separate thread, so that a slow server delays no run.

    If a run starts again, the numbers of epochs that it does not repeat are logged again first. A tracker that fails is
    dropped, with one message.
    """

    def __init__(self, built: Sequence[Tracker], events: EventLog, log: Callable[[str], None]) -> None:
        self.events, self._log_line = events, log
        self._logged = unfinished_runs(EventLog.read(events.storage))
        self._running: dict[str, bool] = {}  # whether each run has logged anything
        self._queue: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
        self._requested = self._done = 0
        self._called = ""  # the tracker that was called last
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._work, args=(list(built),), name="tracking", daemon=True)
        self._thread.start()

    def begin(self, run: TrackedRun) -> None:
        """Start a run, or start it again."""
        if self._running.pop(run.name, None) is not None:
            self._put("end", run.name, "interrupted", {})
        self._running[run.name] = False
        shown = replace(run, parameters=concealed_in(run.parameters), overrides=concealed(run.overrides))
        self._put("begin", shown)

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Record the numbers of one epoch, seed or episode."""
        if name not in self._running:  # a search may have a run twice at a time
            return
        logged = self._logged.setdefault(name, {})
        if not self._running[name]:
            self._running[name] = True
            for before in sorted(logged):
                if before < step:
                    self._put("log", name, before, logged[before])
        logged[step] = dict(numbers)
        self._put("log", name, step, numbers)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        """End a run. NaN is left out of its final numbers."""
        if self._running.pop(name, None) is not None:
            self._logged.pop(name, None)
            self._put("end", name, status, {key: value for key, value in numbers.items() if value == value})

    def close(self) -> None:
        """Wait until the trackers have everything, as long as they make progress."""
        for name in list(self._running):
            self.end(name, "interrupted", {})
        wanted, before = self._requested + 1, -1
        self._put("close")
        with self._progress:
            while self._done < wanted and before < self._done:
                before = self._done
                self._progress.wait_for(lambda: self._done >= wanted, TRACKER_CLOSE_TIMEOUT_S)
            if self._done < wanted:
                self._report_stopped(self._called, "it does not answer")

    def _put(self, method: str, *arguments: Any) -> None:
        self._requested += 1
        self._queue.put((method, arguments))

    def _work(self, alive: list[Tracker]) -> None:
        self._call_all(alive, "open", self.events.storage)
        while True:
            method, arguments = self._queue.get()
            self._call_all(alive, method, *arguments)
            with self._progress:
                self._done += 1
                self._progress.notify_all()
            if method == "close":
                return

    def _report_stopped(self, name: str, why: str) -> None:
        self._log_line(concealed(f"tracking by {name} has stopped: {why}"))
        self.events.emit("tracking stopped", tracker=name, reason=why)

    def _call_all(self, alive: list[Tracker], method: str, *arguments: Any) -> None:
        for tracker in list(alive):
            self._called = type(tracker).__name__
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:  # of any library, server or disk: the study continues without it
                alive.remove(tracker)
                self._report_stopped(self._called, reason(error))
