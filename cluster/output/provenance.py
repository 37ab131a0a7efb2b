"""Says which code and which content a result was made from, and how two results differ in that."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from ranking.digest import digest
from ranking.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]
CODE = "code of "
"""What stands before the names of folders."""
RELEASE = ("version", "commit")


def code(*folders: str) -> dict[str, str]:
    """Version and commit of this Pyrite, for people, and the content of its code that a result depends on.

    A result outlives a commit, or a change that is not committed yet, that leaves those folders as they are.

    Args:
        folders: of the code, as `ranking` or `cluster/runs`.
    """
    return {**_release(), **{f"{CODE}{folder}": _code_of(folder) for folder in folders}}


@cache
def _code_of(folder: str) -> str:
    """A digest of a folder's modules, once a process: what is imported stays as it was."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted((ROOT / folder).rglob("*.py")):
        found.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


@cache
def _release() -> dict[str, str]:
    """Of what is not known, as the commit of an installed package, there is none."""
    found = {}
    with suppress(importlib.metadata.PackageNotFoundError):
        found["version"] = importlib.metadata.version("pyrite")
    if (ROOT / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
            found["commit"] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return found


def contents(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """A digest of each file's content.

    Raises:
        BadInput: where one can't be read.
    """
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
            found.append(_content(str(path), stat.st_size, stat.st_mtime_ns))
        except OSError as error:
            raise BadInput("can't be read", error.filename, "is the path right?") from None
    return found


@cache
def _content(path: str, size: int, changed: int) -> str:
    """Read once a process, unless the file changes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What two results were made from differently.

    Args:
        before: of a result that is there; one of before version 0.2 says nothing.
        now: what it would be made from.

    Returns:
        Names of parts, and of folders as `code of ranking`. Versions and commits differ where one of both does not
        know the code itself; what either does not know of those is no difference.
    """
    if not before:
        return ["version"]
    if _knows_code(before) and _knows_code(now):
        names = [name for name in {**before, **now} if name not in RELEASE]
    else:
        known = set(before) & set(now)
        every = [name for name in {**before, **now} if not name.startswith(CODE)]
        names = [name for name in every if name not in RELEASE or name in known]
    return [name for name in names if before.get(name) != now.get(name)]


def content_digest(made_of: Mapping[str, str]) -> str:
    """A short digest of what something is made from: that of two things is one if there are no `differences`."""
    without = RELEASE if _knows_code(made_of) else ()
    return digest({name: value for name, value in made_of.items() if name not in without})[:6]


def _knows_code(made_of: Mapping[str, str]) -> bool:
    return any(name.startswith(CODE) for name in made_of)
