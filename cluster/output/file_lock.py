"""Has one process at a time make a file that several want."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def file_lock(place: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file while it is made: whoever comes second waits, and finds it made.

    It is the operating system's own, on a file beside the other, and ends with the process that holds it, however that
    ends. Where a disk has no locks, or can't be written, nobody waits: it may then be made twice, whole each time.

    Args:
        place: of the file that is made; NAME.lock beside it is there while someone makes it.
        wait: until it is free.

    Raises:
        Busy: where it is not free, and is not waited for.
    """
    beside = place.with_name(f"{place.name}.lock")
    file = _locked(beside, wait)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                os.unlink(beside)  # while it is held: whoever waits for this very file opens another (`_locked`)
            os.close(file)


def _locked(beside: Path, wait: bool) -> int | None:
    """The locked file, open; None where there can be none."""
    while True:
        try:
            beside.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(os.fstat(file), os.stat(beside)):
                return file
        except BlockingIOError:
            os.close(file)
            raise Busy(str(beside)) from None
        except FileNotFoundError:  # whoever held it has removed it
            pass
        except OSError:  # no locks here
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        os.close(file)
