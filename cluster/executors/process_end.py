"""Ends a process when its parent ends, and with it the processes that it has started."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyrite.cluster.limits import PARENT_LOOK_S, TRAINING_END_S

INTERRUPTED = 130
"""Status of a process that a signal has ended in order, as in shells."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
END_WITH_PARENT = _prctl and partial(_prctl, PR_SET_PDEATHSIG, int(signal.SIGTERM))
"""Has Linux end a process when its parent has ended, also by `kill -9`; None elsewhere."""


def end_with(parent: int, end: Callable[[], object]) -> None:
    """End this process soon after its parent, also while it imports or trains: others may hold its input open.

    Args:
        end: ends it. Called in a thread.
    """

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK_S)
        end()

    threading.Thread(target=look, name="parent", daemon=True).start()


def end_group(group: int, wait: Callable[[float], object]) -> None:
    """End the processes of a group: in order if they can, or else after some seconds.

    Args:
        wait: waits that many seconds for the process that leads the group.
    """
    with suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):  # it has ended, or has not
        try:
            os.killpg(group, signal.SIGTERM)
            wait(TRAINING_END_S)
        finally:
            os.killpg(group, signal.SIGKILL)


def run_ending(body: Callable[[], object], folder: Path, parent: int) -> None:
    """Run a body in a process that leads its group, and end in order on SIGTERM, or when the parent has ended.

    Args:
        folder: what the parent deletes at the end. This process does if the parent has ended.
    """
    for each in SIGNALS:
        signal.signal(each, _interrupt)
    end_with(parent, partial(_end_orphan, folder))
    try:
        body()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if os.getppid() != parent:
            shutil.rmtree(folder, ignore_errors=True)


def _interrupt(signum: int, frame: Any) -> None:
    """Interrupt this process once: a second signal would interrupt its end."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_orphan(folder: Path) -> None:
    """End the group of this process, and delete its folder."""

    def wait(seconds: float) -> None:
        time.sleep(seconds)  # until then the main thread has ended this process, unless it is stuck
        shutil.rmtree(folder, ignore_errors=True)

    end_group(os.getpid(), wait)


def run_command(words: Sequence[str]) -> None:
    """Run a command, which ends when this process does.

    Raises:
        CalledProcessError: if its status is not 0.
        KeyboardInterrupt: if a signal has ended it, as if it had ended this process.
    """
    command = subprocess.Popen(words, preexec_fn=END_WITH_PARENT)
    try:
        status = command.wait()
    finally:
        command.terminate()  # unless it has ended
        with suppress(subprocess.TimeoutExpired):
            command.wait(TRAINING_END_S)
    if status < 0:
        print(f"the command was ended by {signal.Signals(-status).name}", file=sys.stderr)
        raise KeyboardInterrupt
    if status:
        raise subprocess.CalledProcessError(status, words)
