"""Locks a file while one process makes it, so that others wait for the result."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def file_lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file while it is made; a second process waits, and finds the file.

    The lock is one of the operating system on NAME.lock next to the file, and ends with the process that holds it. If
    a disk has no locks or can't be written, no process waits: the file may be made twice, complete each time.

    Raises:
        Busy: if the lock is not free and `wait` is False.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        file = open_locked(lock, wait)
    except OSError:
        file = None
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                os.unlink(lock)  # while it is locked: a process that waits for it opens a new one (`open_locked`)
            os.close(file)


def open_locked(path: Path, wait: bool) -> int | None:
    """Create a file and lock it.

    Returns:
        The open file, or None if its disk has no locks.

    Raises:
        Busy: if the lock is not free and `wait` is False.
        OSError: if the file can't be created.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except BlockingIOError:
            os.close(file)
            raise Busy(str(path)) from None
        except FileNotFoundError:  # the process that held it has removed it
            pass
        except OSError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        os.close(file)
