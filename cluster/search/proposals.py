"""Defines the base of searches, which propose runs during a study."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from cluster.executors.task import Task, Tasks
from cluster.output.provenance import differences
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.outcome import Outcome, read_outcome


class Proposals(Tasks, ABC):
    """Hands out runs whose choice depends on the results of earlier ones.

    Args:
        storage: the folder with finished results.
        made_of: returns what a result must be built from (`Artifacts.provenance`).
    """

    finished = 0
    """Runs that had a result when they were proposed."""

    def __init__(self, storage: Storage, made_of: Callable[[dict[str, Any]], Mapping[str, str]]) -> None:
        self.storage, self.made_of = storage, made_of
        self.proposed: list[Planned] = []
        self.task_of: Callable[[Planned], Task] = lambda planned: Task(planned.name, "")
        self.on_total: Callable[[int], None] = lambda total: None
        """Called with the total when it changes."""

    def outcome(self, planned: Planned) -> Outcome | None:
        """Return the result of a run; None if there is none, or it was built from something else."""
        outcome = read_outcome(self.storage, planned.name)
        return None if outcome is None or differences(outcome.made_of, self.made_of(planned.config)) else outcome

    @property
    @abstractmethod
    def total(self) -> int:
        """Runs so far, and those that are known to follow."""

    @abstractmethod
    def examples(self) -> list[Planned]:
        """Return runs with all parts that proposed runs may have, which are prepared."""
