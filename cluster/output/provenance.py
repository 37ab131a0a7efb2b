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

from ranking.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]


@cache
def code() -> dict[str, str]:
    """Version and commit of this Pyrite; of what is not known, as the commit of an installed package, there is none."""
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
        now: what it would be made from. What either does not know of its code is no difference.
    """
    if not before:
        return ["version"]
    known = set(before) & set(now)
    names = [name for name in {**before, **now} if name not in ("version", "commit") or name in known]
    return [name for name in names if before.get(name) != now.get(name)]
