"""Identifies the code and the files that a result was built from, and compares two results by them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput

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


def contents(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return a digest of each file's content; raise BadInput if one can't be read."""
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
    """Read a file once per process, unless it changes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def files_of(node: dict[str, Any]) -> list[str]:
    """Return digests of the files that an option names: those of its path or else of its checkpoint.

    A checkpoint may be a file, a folder with the files of a checkpoint or a run, or a name at the hub, which has none.
    """
    paths = node.get("path") or []
    if not paths and (checkpoint := node.get("checkpoint")):
        place = Path(checkpoint).expanduser()
        files = [place] if place.is_file() else [*place.glob("*.*"), *place.glob("weights/**/*.*")]
        paths = sorted(str(file) for file in files if file.is_file())
    return contents([paths] if isinstance(paths, str) else paths)


def checkpoints_of(node: Any) -> list[str]:
    """Return digests of the files of all checkpoints in a piece of configuration."""
    if not isinstance(node, dict):
        return []
    digests = files_of({"checkpoint": node.get("checkpoint")})
    return [*digests, *(digest for value in node.values() for digest in checkpoints_of(value))]


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what differs between the inputs of a result and those that it would have now: names of parts, and of
    folders as `code of ranking`. A result that was written before version 0.2 has none.
    """
    names = [name for name in {**before, **now} if name not in RELEASE]
    return [name for name in names if before.get(name) != now.get(name)] if before else ["version"]


def content_digest(made_of: Mapping[str, str]) -> str:
    """Return a short digest of inputs, which is equal for two results without `differences`."""
    return digest({name: value for name, value in made_of.items() if name not in RELEASE})[:6]
