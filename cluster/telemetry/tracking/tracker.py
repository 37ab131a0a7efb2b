"""Defines a tracker, which keeps the numbers of runs and draws them."""

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
class Run:
    """What is tracked: a ranker's run, a learning, or a method over a pool.

    Args:
        name: unique in its folder, and the same when the study is resumed.
        parameters: what tells it from others: what the study sweeps, and the seed.
        overrides: of the command that makes it alone.
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    overrides: str = ""


class Tracker(ABC):
    """Keeps the numbers of runs.

    All but `check` is called from one thread, which does nothing else. What is raised there ends the tracker, and no
    study.
    """

    package = ""
    """That it needs, of the extra `track`."""
    spreads = False
    """Whether several processes, of several machines, may track runs of one output folder."""

    @property
    def label(self) -> str:
        """What people are told that it is."""
        return type(self).__name__

    def check(self) -> None:
        """See before anything starts that it can track.

        Raises:
            BadInput: where its package is not installed.
        """
        if self.package and importlib.util.find_spec(self.package) is None:
            what = f"the package {self.package} is not installed"
            raise BadInput(what, f"track={self.package}", "pip install 'pyrite[track]'")

    @abstractmethod
    def open(self, storage: Storage) -> None:
        """Get ready to track the runs of an output folder."""

    @abstractmethod
    def begin(self, run: Run) -> None:
        """A run begins, or begins again: what was kept of it before is gone, and told again."""

    @abstractmethod
    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Keep the numbers of an epoch, a seed or an episode of the run of this name."""

    @abstractmethod
    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        """The run has ended, or was interrupted, with these final figures."""

    def gather(self) -> None:  # noqa: B027  most have nothing to do
        """Ray ends: what other processes hold of runs, all of which have ended, is brought to its end."""

    def close(self) -> None:  # noqa: B027  most have nothing to do
        """No more runs."""
