"""Tracks many runs at once from several processes: what a library holds for a run adds up in none of them.

For each run that is under way TensorBoard holds two threads and three files, Weights & Biases a connection. The study's
own process holds those of so many runs, and actors beside the trials those of the others.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.executors.session import connected
from cluster.output.storage import Storage
from cluster.telemetry.tracking.tracker import Run, Status, Tracker

AT_ONCE = 50
"""Runs under way that one process tracks."""
UNHEARD = 256
"""Calls to an actor after which its answers are heard."""


class TrackerHost:
    """An actor with a tracker of its own.

    Args:
        tracker: that nobody has opened.
        storage: the output folder.
    """

    def __init__(self, tracker: Tracker, storage: Storage) -> None:
        self._tracker = tracker
        tracker.open(storage)

    def call(self, method: str, *arguments: Any) -> None:
        """Pass a call on."""
        getattr(self._tracker, method)(*arguments)


@dataclass
class _Story:
    """What a run has told, to be told again where its actor is lost."""

    run: Run
    told: list[tuple[int, Mapping[str, float]]] = field(default_factory=list)
    ended: tuple[Status, Mapping[str, float]] | None = None


@dataclass(eq=False)
class _Host:
    """An actor, with what it was told and has not answered for yet."""

    actor: Any
    stories: dict[str, _Story] = field(default_factory=dict)
    unheard: list[Any] = field(default_factory=list)

    @property
    def under_way(self) -> int:
        return sum(story.ended is None for story in self.stories.values())


class SpreadTracker(Tracker):
    """A tracker here, and others like it in actors for the runs that are too many for one process.

    Args:
        tracker: that nobody has opened; one whose processes may write beside each other (`Tracker.spreads`).
    """

    spreads = True

    def __init__(self, tracker: Tracker) -> None:
        self._here, self._unopened = tracker, copy.deepcopy(tracker)
        self._own = set[str]()
        self._hosts: list[_Host] = []

    @property
    def label(self) -> str:
        return self._here.label

    def check(self) -> None:
        self._here.check()

    def open(self, storage: Storage) -> None:
        self._storage = storage
        self._here.open(storage)

    def begin(self, run: Run) -> None:
        for earlier in [each for each in self._hosts if run.name in each.stories]:
            self._hear(earlier)  # that it has let go of the run's files
        if len(self._own) < AT_ONCE or not connected():
            self._own.add(run.name)
            self._here.begin(run)
            return
        host = next((each for each in self._hosts if each.under_way < AT_ONCE), None) or self._new_host()
        host.stories[run.name] = _Story(run)
        self._call(host, "begin", run)

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        host = self._host_of(name)
        if host is None:
            self._here.log(name, step, numbers)
            return
        host.stories[name].told.append((step, numbers))
        self._call(host, "log", name, step, numbers)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        host = self._host_of(name)
        if host is None:
            self._own.discard(name)
            self._here.end(name, status, numbers)
            return
        host.stories[name].ended = (status, numbers)
        self._call(host, "end", name, status, numbers)

    def gather(self) -> None:
        if not self._hosts:
            return
        import ray

        while self._hosts:
            host = self._hosts[-1]
            self._call(host, "close")
            self._hear(host)
            if host in self._hosts:
                self._hosts.remove(host)
                ray.kill(host.actor)

    def close(self) -> None:
        self.gather()
        self._here.close()

    def _host_of(self, name: str) -> _Host | None:
        under_way = (each for each in self._hosts if name in each.stories and each.stories[name].ended is None)
        return next(under_way, None)

    def _new_host(self) -> _Host:
        import ray

        options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        host = _Host(ray.remote(TrackerHost).options(**options).remote(self._unopened, self._storage))
        self._hosts.append(host)
        return host

    def _call(self, host: _Host, method: str, *arguments: Any) -> None:
        host.unheard.append(host.actor.call.remote(method, *arguments))
        if len(host.unheard) >= UNHEARD:
            self._hear(host)

    def _hear(self, host: _Host) -> None:
        """Wait for an actor's answers; what its library raises is raised here."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        try:
            ray.get(host.unheard)
        except RayActorError as error:
            if isinstance(error, RayTaskError):
                raise
            self._tell_again(host)
            return
        host.unheard.clear()
        host.stories = {name: story for name, story in host.stories.items() if story.ended is None}

    def _tell_again(self, host: _Host) -> None:
        """An actor is lost, with its machine perhaps: its runs begin again elsewhere."""
        self._hosts.remove(host)
        for name, story in host.stories.items():
            self.begin(story.run)
            for step, numbers in story.told:
                self.log(name, step, numbers)
            if story.ended is not None:
                self.end(name, *story.ended)
