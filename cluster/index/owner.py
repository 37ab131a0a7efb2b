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
    """Record this process as the owner of an index folder."""
    with contextlib.suppress(OSError):  # a full disk is reported by the first write that matters
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OWNER).write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))


def remove_orphans(parent: Path) -> None:
    """Remove subfolders whose owner was killed. Folders of processes on other hosts stay."""
    for file in parent.glob(f"*/{OWNER}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            owner = json.loads(file.read_text())
            if owner["host"] == socket.gethostname() and not psutil.pid_exists(owner["pid"]):
                shutil.rmtree(file.parent, ignore_errors=True)
