"""Keeps files in a folder of this machine, backed by a shared place from which other machines fetch them."""

from __future__ import annotations

from pathlib import Path, PosixPath
from typing import Protocol
from uuid import uuid4

from pyrite.ranking.errors import BadInput


class Backing(Protocol):
    """A place that all machines see. In each process it knows the local folder that caches it."""

    @property
    def folder(self) -> Path:
        """The folder on this machine."""

    def fetch(self, name: str, file: Path) -> bool:
        """Copy a file from the place, whole or not at all; return False if it does not exist.

        Raises:
            BadInput: if the place can't be read.
        """

    def publish(self, file: Path, name: str) -> None:
        """Copy a file to the place; others never see a part of it.

        Raises:
            BadInput: if the place can't be written.
        """

    def withdraw(self, name: str) -> None:
        """Remove a file from the place, if it exists."""

    def shown(self, name: str) -> str:
        """Return the path or URI of a file there, for messages."""


_BACKINGS: dict[str, Backing] = {}
"""The backings of this process, by their folders."""


class BackedPath(PosixPath):
    """A path in the folder of a backing. Another machine receives it as the same name in its folder.

    Paths derived from it by joining and the like are backed too; a plain `Path` of it is a file of this machine only.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (backed, self.behind())

    def behind(self) -> tuple[Backing, str]:
        """Return the backing and the file's name in it."""
        folder = next(str(parent) for parent in (self, *self.parents) if str(parent) in _BACKINGS)
        return _BACKINGS[folder], str(self)[len(folder) + 1 :]


class NotWhole(BadInput):
    """An error for a file of a backing that no longer exists or is cut short."""

    def __reduce__(self) -> tuple[type[NotWhole], tuple[object, ...]]:
        return (NotWhole, (self.what, self.where, self.remedy))


def backed(backing: Backing, name: str = "") -> BackedPath:
    """Return the path of a backing's file on this machine; without a name, that of its folder."""
    folder = backing.folder
    _BACKINGS[str(folder)] = backing
    return BackedPath(folder, name)


def at_hand(file: Path) -> bool:
    """Return whether a file is on this machine, fetching it if necessary."""
    if not isinstance(file, BackedPath) or file.exists():
        return file.exists()
    backing, name = file.behind()
    return backing.fetch(name, file)


def fetched(file: Path) -> Path:
    """Return the file after fetching it to this machine.

    Raises:
        NotWhole: if the backing has no such file. A plain path is not checked.
    """
    if not at_hand(file) and isinstance(file, BackedPath):
        raise NotWhole("does not exist", where(file), "give the command again, to have it made again")
    return file


def latest(file: Path) -> bytes | None:
    """Return the current content behind a file, regardless of this machine's copy; None if there is none."""
    if not isinstance(file, BackedPath):
        return file.read_bytes() if file.exists() else None
    backing, name = file.behind()
    copy = file.with_name(f"{file.name}.{uuid4().hex[:8]}.part")
    try:
        return copy.read_bytes() if backing.fetch(name, copy) else None
    finally:
        copy.unlink(missing_ok=True)


def publish(file: Path) -> None:
    """Give other machines access to a file that is complete here; does nothing for a plain path."""
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
    """Return the path of a file for messages: the one that others see too."""
    if not isinstance(file, BackedPath):
        return str(file)
    backing, name = file.behind()
    return backing.shown(name)


def damaged(file: BackedPath) -> NotWhole:
    """Return the error for a fetched file that is not whole, and delete it here, so that it can be fetched again."""
    file.unlink(missing_ok=True)
    return NotWhole("is cut short, or not what it should be", where(file), "delete it there, to have it made again")
