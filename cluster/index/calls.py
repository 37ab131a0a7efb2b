"""Handles what processes of an index leave behind when they die: failed calls, and folders without an owner."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # Ray brings it
import ray

from ranking.errors import BadInput

RETRY_BACKOFF_S = (0.1, 2.0)
"""First and longest pause between two calls to an actor that is lost."""
CLOSE_TIMEOUT_S = 5.0
"""How long the end of an index waits for actors to delete their files."""
DELETE_PAUSE_S = 0.1
"""Pause between two attempts to delete the folder at the end."""
MAX_RESTARTS = 3
"""How often one block, or one version's shards, are tried again after actors died; then the error is raised."""


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise `BadInput` from an actor as itself, without Ray's traceback around it."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BadInput):
            raise error.cause from None
        raise


def retries() -> Iterator[None]:
    """Yield once per attempt, with a growing pause before each one after the first."""
    pause, longest = RETRY_BACKOFF_S
    yield
    while True:
        time.sleep(pause)
        pause = min(2 * pause, longest)
        yield


OWNER = "owner.json"


def claim(folder: Path) -> None:
    """Record this process as the owner of an index folder."""
    with contextlib.suppress(OSError):  # a full disk is reported by the first write that matters
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OWNER).write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))


def release(folder: Path) -> None:
    """Delete an index folder, and those next to it of processes that were killed."""
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
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
            if owner["host"] == socket.gethostname() and not psutil.pid_exists(owner["pid"]):
                shutil.rmtree(file.parent, ignore_errors=True)
