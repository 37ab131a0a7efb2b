"""Defines the base of searches, which propose runs during a study."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pyrite.cluster.executors.task import Done, Task, Tasks, Wait
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.provenance import differences
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.outcome import Outcome, read_outcome
from pyrite.cluster.telemetry.run_watch import raise_unwritable

MadeOf = Callable[[dict[str, Any]], Mapping[str, str]]


class Proposals(Tasks, ABC):
    """Hands out the runs of a study whose choice depends on the results of earlier ones.

    Args:
        made_of: returns what a result must be built from (`Artifacts.provenance`).
    """

    finished = 0
    """Runs that had a result when they were proposed."""

    def __init__(self, plan: StudyPlan, made_of: MadeOf) -> None:
        self.plan, self.seeds, self.made_of = plan, plan.seeds, made_of
        self._queue: list[Planned] = []
        self._running: dict[str, Planned] = {}
        self.proposed: list[Planned] = []
        self.examples: list[Planned] = []
        """Runs with all parts that proposed runs may have, which are prepared."""
        self.task_of: Callable[[Planned], Task] = lambda planned: Task(planned.name, "")
        self.on_total: Callable[[int], None] = lambda total: None
        """Called with the total when it changes."""

    @property
    def left(self) -> list[Planned]:
        """The runs that are proposed and have not ended."""
        return [*self._queue, *self._running.values()]

    def start(self, log: EventLog) -> None:
        """Write decisions to a log, also those that were made before it existed."""

    def next(self) -> Task | Wait | None:
        """Return the next run; `Wait.WAIT` if it is proposed after results that are missing."""
        if not self._queue:
            self.propose()
        if not self._queue:
            return Wait.WAIT if self._running else None
        planned = self._queue.pop(0)
        self._running[planned.name] = planned
        return self.task_of(planned)

    def ended(self, done: Done) -> None:
        """Receive the end of a run, with a result or without.

        Raises:
            Unwritable: if its result could not be kept, as on a full disk. No search learns from that: it ends, and the
                next command runs the same again.
        """
        raise_unwritable(done)
        self.receive(self._running.pop(done.task.key))

    @abstractmethod
    def propose(self) -> None:
        """Queue runs, as far as they do not depend on results that are missing."""

    @abstractmethod
    def receive(self, planned: Planned) -> None:
        """Read the result of a run that has ended."""

    def outcome(self, planned: Planned) -> Outcome | None:
        """Return the result of a run; None if there is none, or it was built from something else."""
        outcome = read_outcome(self.plan.storage, planned.name)
        return None if outcome is None or differences(outcome.made_of, self.made_of(planned.config)) else outcome

    @property
    @abstractmethod
    def total(self) -> int:
        """Runs so far, and those that are known to follow."""


class AllPlanned(Proposals):
    """The proposals of a study whose runs are all planned: none."""

    total = 0

    def propose(self) -> None: ...

    def receive(self, planned: Planned) -> None: ...
