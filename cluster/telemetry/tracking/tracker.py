"""Defines the interface of trackers, which record the numbers of runs."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cluster.output.storage import Storage
from ranking.errors import BadInput

Status = Literal["done", "failed", "interrupted", "stopped"]


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers see it: a ranker's training, an agent's learning, or a method over a pool.

    Args:
        name: unique in the output folder; a resumed study uses the same name again.
        parameters: what distinguishes the run: the study's swept options, and the seed.
        overrides: overrides of the command that repeats this run alone.
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    overrides: str = ""


class Tracker(ABC):
    """Records the numbers of runs.

    All methods but `check` are called from one separate thread. An exception there ends this tracker, not the study.
    """

    package = ""
    """The package that it needs, from the extra `track`."""

    @property
    def label(self) -> str:
        """Name for messages."""
        return type(self).__name__

    def check(self) -> None:
        """Check before anything starts that the tracker can work."""
        if self.package and importlib.util.find_spec(self.package) is None:
            what = f"the package {self.package} is not installed"
            raise BadInput(what, f"track={self.package}", "pip install 'pyrite-ir[track]'")

    @abstractmethod
    def open(self, storage: Storage) -> None:
        """Prepare to track the runs of an output folder."""

    @abstractmethod
    def begin(self, run: TrackedRun) -> None:
        """Start a run. If it was tracked before, delete what was recorded; it is logged again."""

    @abstractmethod
    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Record the numbers of one epoch, seed or episode of a run."""

    @abstractmethod
    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        """End a run with its final numbers."""

    def close(self) -> None:  # noqa: B027  most have nothing to do
        """Finish after the last run."""
