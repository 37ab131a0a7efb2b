"""Defines the interface of trackers, which record the numbers of runs, and the local folder of their files."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import refuse

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

    def check(self) -> None:
        """Check before anything starts that the tracker can work; raise BadInput if its package is not installed."""
        what = f"the package {self.package} is not installed"
        refuse(
            self.package and importlib.util.find_spec(self.package) is None,
            what,
            f"track={self.package}",
            "pip install 'pyrite-ir[track]'",
        )

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


class LocalCopy:
    """A local folder for the content of `OUT/NAME`: that folder, or a temporary one that is uploaded to a URI."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage, self.name = storage, name
        self._temporary = None if storage.local else tempfile.TemporaryDirectory(prefix="pyrite-")
        self.path = Path(storage.path(name)) if self._temporary is None else Path(self._temporary.name) / name

    def fetch(self, file: str) -> Path:
        """Return the local path of a file, with the content that an earlier command wrote."""
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        content = None if self._temporary is None else self.storage.read(f"{self.name}/{file}")
        if content is not None:
            path.write_bytes(content)
        return path

    def empty(self, folder: str) -> Path:
        """Return the local path of a subfolder, without content."""
        path = self.path / folder
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def upload(self, part: str = "") -> None:
        """Replace the remote files of a finished subfolder, or of all, by the local ones."""
        if self._temporary is None:
            return
        files = [file for file in (self.path / part).rglob("*") if file.is_file() and not file.is_symlink()]
        for folder in {file.parent for file in files}:
            remote = f"{self.name}/{folder.relative_to(self.path).as_posix()}".removesuffix("/.")
            names = [file.name for file in files if file.parent == folder]
            for name in names:
                self.storage.write(f"{remote}/{name}", (folder / name).read_bytes())
            for stale in {*self.storage.names(remote)} - {*names}:
                self.storage.delete(f"{remote}/{stale}")
        if part:
            shutil.rmtree(self.path / part)

    def close(self) -> None:
        """Upload everything, and delete the temporary folder."""
        self.upload()
        if self._temporary is not None:
            self._temporary.cleanup()
