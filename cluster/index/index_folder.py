"""Keeps the versions of a negative index on disk, in a folder that its process owns."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil  # Ray brings it
import ray
from numpy.typing import NDArray

from pyrite.cluster.limits import DELETE_PAUSE_S, INDEX_CLOSE_TIMEOUT_S
from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.index_versions import IndexVersion, open_version, weights_digest

WEIGHTS = "weights.safetensors"
OWNER = "owner.json"


@dataclass(frozen=True)
class Publication:
    """Weights to build a version from.

    Args:
        version: the version's number; None takes the one after the last build.
        digest: `weights_digest` of the weights.
        weights: reference to a safetensors file as uint8.
    """

    step: int
    version: int | None
    digest: str
    weights: ray.ObjectRef = field(compare=False)

    @classmethod
    def of(cls, step: int, version: int | None, weights: ray.ObjectRef) -> Publication:
        """Read the weights, to identify them."""
        return cls(step, version, digest_of(ray.get(weights)), weights)


def digest_of(content: NDArray[np.uint8]) -> str:
    """Return the `weights_digest` of a safetensors file's content."""
    return weights_digest(from_bytes(content.tobytes(), "published weights"))


class IndexFolder:
    """The folder `versions/` of an index; every version in it is complete or absent."""

    def __init__(self, path: Path) -> None:
        self.path, self._versions = path, path / "versions"
        self._versions.mkdir(parents=True, exist_ok=True)
        for leftover in self._versions.glob("*.part"):  # of an actor that was killed while it wrote
            shutil.rmtree(leftover)

    def version_path(self, step: int) -> Path:
        """Return the folder of a step's version."""
        return self._versions / f"{step:09d}"

    def versions(self) -> dict[int, IndexVersion]:
        """Open the intact versions, by step. A broken one, or one whose weights do not match, is removed."""
        versions = {}
        for folder in sorted(self._versions.iterdir()):
            version = open_version(folder)
            if version is not None and _digest_in(folder / WEIGHTS) == version.digest:
                versions[version.step] = version
            else:
                shutil.rmtree(folder)
        return versions

    def remove(self, step: int) -> None:
        """Delete a version. A reader that has it open keeps it until the end of its search."""
        shutil.rmtree(self.version_path(step), ignore_errors=True)

    def delete(self) -> None:
        """Delete the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _digest_in(file: Path) -> str | None:
    """Return the digest of the weights in a file, or None if the file is broken or absent."""
    try:
        return digest_of(np.fromfile(file, np.uint8))
    except (OSError, BadInput):
        return None


def claim(folder: Path) -> None:
    """Record this process as the owner of an index folder."""
    with contextlib.suppress(OSError):  # a full disk is reported by the first write that matters
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OWNER).write_text(json.dumps({"host": _host(), "pid": os.getpid()}))


def _host() -> str:
    """Return the name of what process ids belong to: a machine, or one of several containers with its name."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return socket.gethostname()


def release(folder: Path) -> None:
    """Delete an index folder, and those next to it of processes that were killed."""
    deadline = time.monotonic() + INDEX_CLOSE_TIMEOUT_S
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or time.monotonic() > deadline:
            break
        time.sleep(DELETE_PAUSE_S)  # an encoder may still write a version
    remove_orphans(folder.parent)  # e.g. of this run from before it was killed and resumed
    with contextlib.suppress(OSError):  # others may still use it
        folder.parent.rmdir()


def remove_orphans(parent: Path) -> None:
    """Remove subfolders whose owner was killed. Folders of processes on other hosts stay."""
    for file in parent.glob(f"*/{OWNER}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads(file.read_text())
            if owner["host"] == _host() and not psutil.pid_exists(owner["pid"]):
                shutil.rmtree(file.parent, ignore_errors=True)
