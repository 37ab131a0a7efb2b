"""Keeps files in a folder of this machine with a place behind it, from which other machines fetch them."""

from __future__ import annotations

from pathlib import Path, PosixPath
from typing import Protocol
from uuid import uuid4

from ranking.errors import BadInput


class Backing(Protocol):
    """A place that all machines see. It crosses processes, and says in each which folder stands before it there."""

    @property
    def folder(self) -> Path:
        """The folder of this machine."""

    def fetch(self, name: str, file: Path) -> bool:
        """Copy a file from there, whole or not at all; False where there is none.

        Raises:
            BadInput: where the place can't be read.
        """

    def publish(self, file: Path, name: str) -> None:
        """Copy a file there; nobody sees half of it.

        Raises:
            BadInput: where the place can't be written.
        """

    def withdraw(self, name: str) -> None:
        """Remove a file there, if there is one."""

    def shown(self, name: str) -> str:
        """A file there, as people are told of it."""


_BACKINGS: dict[str, Backing] = {}
"""Of this process, by their folders."""


class BackedPath(PosixPath):
    """A path in the folder of a backing. It goes to another machine as its name there, where the folder is another.

    What is made of it by joining and the like is one too; a plain `Path` of it is a file of this machine alone.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (backed, self.behind())

    def behind(self) -> tuple[Backing, str]:
        """The backing, and the file's name in it."""
        folder = next(str(parent) for parent in (self, *self.parents) if str(parent) in _BACKINGS)
        return _BACKINGS[folder], str(self)[len(folder) + 1 :]


class NotWhole(BadInput):
    """A file of a backing is not there any more, or is cut short."""

    def __reduce__(self) -> tuple[type[NotWhole], tuple[object, ...]]:
        return (NotWhole, (self.what, self.where, self.remedy))


def backed(backing: Backing, name: str = "") -> BackedPath:
    """The path of a file of a backing on this machine; without a name, of all of them."""
    folder = backing.folder
    _BACKINGS[str(folder)] = backing
    return BackedPath(folder, name)


def at_hand(file: Path) -> bool:
    """Whether a file is on this machine, be it that it is fetched now."""
    if not isinstance(file, BackedPath) or file.exists():
        return file.exists()
    backing, name = file.behind()
    return backing.fetch(name, file)


def fetched(file: Path) -> Path:
    """The file, which is on this machine from now on.

    Raises:
        NotWhole: where a backing has none. A plain path is not looked for.
    """
    if not at_hand(file) and isinstance(file, BackedPath):
        raise NotWhole("is not there", where(file), "give the command again, to have it made again")
    return file


def latest(file: Path) -> bytes | None:
    """What stands behind a file now, whatever this machine has of it; None where there is nothing."""
    if not isinstance(file, BackedPath):
        return file.read_bytes() if file.exists() else None
    backing, name = file.behind()
    beside = file.with_name(f"{file.name}.{uuid4().hex[:8]}.part")
    try:
        return beside.read_bytes() if backing.fetch(name, beside) else None
    finally:
        beside.unlink(missing_ok=True)


def publish(file: Path) -> None:
    """Let other machines have a file that is whole here; nothing to do for a plain path."""
    if isinstance(file, BackedPath):
        backing, name = file.behind()
        backing.publish(file, name)


def withdraw(file: Path) -> None:
    """Remove a file, here and where it was published."""
    file.unlink(missing_ok=True)
    if isinstance(file, BackedPath):
        backing, name = file.behind()
        backing.withdraw(name)


def where(file: Path) -> str:
    """A file as people are told of it: where others see it too."""
    if not isinstance(file, BackedPath):
        return str(file)
    backing, name = file.behind()
    return backing.shown(name)


def damaged(file: BackedPath) -> NotWhole:
    """What to raise of a fetched file that is not whole; it is forgotten here, so that one that is can be fetched."""
    file.unlink(missing_ok=True)
    return NotWhole("is cut short, or not what it should be", where(file), "delete it there, to have it made again")
