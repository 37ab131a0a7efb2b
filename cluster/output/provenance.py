"""Identifies the code and the files that a result was built from, and compares two results by them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from pyrite.ranking.digest import digest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).parents[2]
"""The folder of `pyrite`, in which those of the checkout are linked."""
CODE = "code of "
"""Prefix of the names of folders."""
RELEASE = ("version", "commit")
"""Inputs for readers: the digests of the code say whether a result would be the same."""


def code(*folders: str) -> dict[str, str]:
    """Return version and commit of this Pyrite, for readers, and digests of the code that a result depends on.

    A result stays valid after a change, committed or not, outside these folders.
    """
    return {**release(), **{f"{CODE}{folder}": _code_of(folder) for folder in folders}}


@cache
def _code_of(folder: str) -> str:
    """Return a digest of a folder's modules, read once per process, since imported code does not change."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        found.update(f"{path.relative_to(PACKAGE).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


@cache
def release() -> dict[str, str]:
    """Return the version and the commit of this Pyrite, as far as known: an installed package has no commit."""
    found = {}
    with suppress(importlib.metadata.PackageNotFoundError):
        found["version"] = importlib.metadata.version("pyrite-ir")
    if (ROOT / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
            found["commit"] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return found


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what differs between the inputs of a result and those that it would have now: names of parts, and of
    folders as `code of ranking`. A result that was written before version 0.2 has none, and one whose agent must be
    learned first would have none now.
    """
    if before and not now:
        return ["agent"]
    names = [name for name in {**before, **now} if name not in RELEASE]
    return [name for name in names if before.get(name) != now.get(name)] if before else ["version"]


def content_digest(made_of: Mapping[str, str]) -> str:
    """Return a short digest of inputs, which is equal for two results without `differences`."""
    return digest({name: value for name, value in made_of.items() if name not in RELEASE})[:6]
