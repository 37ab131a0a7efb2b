"""Passes what happens on to the trackers, from a thread beside the study."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from rich.console import Console

from cluster.config.build import build
from cluster.config.groups import group_options, option
from cluster.output.event_log import EventLog, reason
from cluster.output.storage import Storage
from cluster.telemetry.tracking.spread import AT_ONCE, SpreadTracker
from cluster.telemetry.tracking.tracker import Run, Status, Tracker

PATIENCE = 60.0
"""Seconds without a sign of life after which trackers are left to themselves at the end."""


def trackers(nodes: Mapping[str, Any]) -> list[Tracker]:
    """The trackers of a configuration's group `track`, TensorBoard among them in any case.

    Raises:
        BadInput: where one refuses its options, or its package is not installed.
    """
    built: list[Tracker] = [build(node) for node in {**option("track", "tensorboard"), **nodes}.values()]
    for tracker in built:
        tracker.check()
    return built


def as_overrides(nodes: Mapping[str, Any]) -> list[str]:
    """The overrides that choose the trackers of a configuration."""
    named = [name for name in nodes if name != "tensorboard"]
    chosen = [f"track=[{','.join(named)}]"] if named else []
    for name in named:
        defaults = option("track", name)[name]
        chosen += [f"track.{name}.{key}={value}" for key, value in nodes[name].items() if value != defaults.get(key)]
    return chosen


def as_override_of(group: str, node: Mapping[str, Any] | None) -> list[str]:
    """The overrides that choose a part of a group without a name; none where it is None."""
    if node is None:
        return []
    files = {name: option(group, name) for name in group_options()[group]}
    name = next((name for name, each in files.items() if each["_target_"] == node["_target_"]), next(iter(files)))
    changed = {key: value for key, value in node.items() if files[name].get(key) != value}
    return [f"{group}={name}", *(f"{'' if key in files[name] else '+'}{group}.{key}={changed[key]}" for key in changed)]


@contextmanager
def tracked(
    built: Sequence[Tracker],
    storage: Storage,
    console: Console,
    verb: str,
    resumed: bool,
    **facts: Any,
) -> Iterator[Tracking]:
    """Track what a command does, and write its log.

    Args:
        built: `trackers`.
        storage: the output folder.
        console: told where a tracker fails.
        verb: study, train, learn or pool.
        resumed: the folder holds what an earlier command began.
        facts: of the command, for the log.
    """
    events = EventLog(storage)
    earlier = unfinished(EventLog.read(storage)) if resumed else {}
    with events.session(verb, resumed, **facts):
        tracking = Tracking(built, events, lambda line: console.print(line, markup=False), earlier)
        try:
            yield tracking
        finally:
            tracking.close()


class Tracking:
    """Hands what happens on to the trackers, from a thread of its own: a server that is slow keeps nobody waiting.

    A run that begins again is told anew: first what its earlier attempt had told of the epochs that it does not repeat.
    A tracker that fails is told nothing more, and that is said once.

    Args:
        built: the trackers.
        events: the study's log.
        note: told where a tracker fails.
        earlier: numbers by run and step, of runs that an earlier command did not bring to their end.
    """

    def __init__(
        self,
        built: Sequence[Tracker],
        events: EventLog,
        note: Callable[[str], None],
        earlier: Mapping[str, Mapping[int, Mapping[str, float]]],
    ) -> None:
        self.events, self._note = events, note
        self._told = {name: dict(steps) for name, steps in earlier.items()}
        self._begun: dict[str, bool] = {}  # of the runs under way, whether they have told anything
        self._most = 0  # runs under way at once
        self._queue: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
        self._asked = self._done = 0
        self._worked = threading.Condition()
        spread = [SpreadTracker(tracker) if tracker.spreads else tracker for tracker in built]
        self._thread = threading.Thread(target=self._work, args=(spread,), name="tracking", daemon=True)
        self._thread.start()

    def begin(self, run: Run) -> None:
        """A run begins, or begins again."""
        if self._begun.pop(run.name, None) is not None:
            self._put("end", run.name, "interrupted", {})
        self._begun[run.name] = False
        self._most = max(self._most, len(self._begun))
        self._put("begin", run)

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of an epoch, a seed or an episode."""
        if name not in self._begun:  # a search may come back to a run, and has it twice at a time
            return
        told = self._told.setdefault(name, {})
        if not self._begun[name]:
            self._begun[name] = True
            for before in sorted(told):
                if before < step:
                    self._put("log", name, before, told[before])
        told[step] = numbers
        self._put("log", name, step, numbers)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        """A run has ended; what is no number is left out."""
        if self._begun.pop(name, None) is not None:
            self._told.pop(name, None)
            self._put("end", name, status, {key: value for key, value in numbers.items() if value == value})

    def settle(self) -> None:
        """Ray ends, and no run is under way: wait for what is told from processes of Ray's, where there are any."""
        if self._most > AT_ONCE:
            self._end_with("gather")

    def close(self) -> None:
        """Wait until all is told, as long as there are signs of life."""
        self._end_with("close")

    def _end_with(self, method: str) -> None:
        for name in list(self._begun):
            self.end(name, "interrupted", {})
        wanted, done = self._asked + 1, -1
        self._put(method)
        with self._worked:
            while self._done < wanted and done < self._done:
                done = self._done
                self._worked.wait_for(lambda: self._done >= wanted, PATIENCE)
            if self._done < wanted:
                self._note("tracking was given up: a tracker does not answer")

    def _put(self, method: str, *arguments: Any) -> None:
        self._asked += 1
        self._queue.put((method, arguments))

    def _work(self, alive: list[Tracker]) -> None:
        self._each(alive, "open", self.events.storage)
        while True:
            method, arguments = self._queue.get()
            self._each(alive, method, *arguments)
            with self._worked:
                self._done += 1
                self._worked.notify_all()
            if method == "close":
                return

    def _each(self, alive: list[Tracker], method: str, *arguments: Any) -> None:
        for tracker in list(alive):
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:  # of whatever library, server or disk: no study hangs on it
                alive.remove(tracker)
                what = f"tracking by {tracker.label} has stopped: {reason(error)}"
                self._note(what)
                self.events.emit("tracking stopped", tracker=tracker.label, reason=reason(error))


def unfinished(events: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, dict[str, float]]]:
    """What runs had told that an earlier command did not bring to their end, from its log."""
    told: dict[str, dict[int, dict[str, float]]] = {}
    for event in events:
        if event["event"] == "run reached":
            known = {key: float("nan") if value is None else value for key, value in event["numbers"].items()}
            told.setdefault(event["run"], {})[event["step"]] = known
        elif event["event"] == "run ended":
            told.pop(event["run"], None)
    return told
