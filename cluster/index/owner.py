"""Removes index folders whose owner process has died."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from pathlib import Path

import psutil  # Ray brings it

OWNER = "owner.json"


def claim(folder: Path) -> None:
    """Say that this process is the one whose index lies there."""
    with contextlib.suppress(OSError):  # a full disk will be told by what matters more
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OWNER).write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))


def remove_orphans(parent: Path) -> None:
    """Remove the folders in there whose owner was killed; those of other machines' processes stay."""
    for file in parent.glob(f"*/{OWNER}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads(file.read_text())
            if owner["host"] == socket.gethostname() and not psutil.pid_exists(owner["pid"]):
                shutil.rmtree(file.parent, ignore_errors=True)
