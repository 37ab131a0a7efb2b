"""Locks an output folder, so that one command at a time writes to it."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cluster.output.file_lock import Busy, open_locked
from cluster.output.storage import Storage, unwritable
from cluster.output.throttle import poll
from ranking.errors import BadInput

FILE = ".claimed"
"""File that names the process that writes to the folder. It is deleted when the process ends."""
RENEW_S = 10.0
"""Seconds between two renewals of a claim without a lock."""
REMEDY = "wait for it or stop it, or choose another out="


@contextmanager
def output_lock(storage: Storage) -> Iterator[None]:
    """Hold a folder while a command writes to it; refuse one that can't be written, or that another process holds.

    In a local or shared folder the claim is a lock of the operating system, which ends with its process. URIs, and some
    shared folders, have no locks; there the claim is a file that is renewed. A file that does not change for three
    renewals belongs to a process that was killed. Clocks of two machines differ and are not compared. A process that
    was suspended for that long finds another process's file when it continues, and ends.
    """
    with ExitStack() as stack:
        if not storage.local or not stack.enter_context(_locked(storage)):
            stack.enter_context(_renewed(storage))
        storage.tidy()
        try:
            yield
        finally:
            storage.tidy()


def is_held(storage: Storage) -> bool:
    """Return whether a command seems to write to a folder now, without locking it."""
    content = storage.read(FILE)
    if content is None:
        return False
    words = _owner(content).split(" on ")
    number = words[0].removeprefix("process ")
    if words[-1] != socket.gethostname() or not number.isdigit():
        return True  # on another machine: its file is the only sign
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def _locked(storage: Storage) -> Iterator[bool]:
    """Hold a lock of the operating system; yield False if the file system has none."""
    path = Path(storage.path(FILE))
    file = _lock(storage, path)
    if file is None:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):  # while it is locked: the next process creates a new file
            path.unlink()
            path.parent.rmdir()  # if the command wrote nothing
        os.close(file)


def _lock(storage: Storage, path: Path) -> int | None:
    try:
        file = open_locked(path, wait=False)
        if file is not None:
            try:
                os.ftruncate(file, 0)
                os.write(file, _process().encode())
            except OSError:
                os.close(file)
                raise
    except Busy:
        raise _refusal(storage, _owner(storage.read(FILE) or b"")) from None
    except OSError as error:
        raise unwritable(error, storage.place, "choose another out=") from None
    return file


@contextmanager
def _renewed(storage: Storage) -> Iterator[None]:
    """Hold a file that changes regularly."""
    before, deadline = storage.read(FILE), time.monotonic() + 3 * RENEW_S
    while before is not None and time.monotonic() < deadline:
        time.sleep(RENEW_S / 10)
        now = storage.read(FILE)
        if now is not None and now != before:
            raise _refusal(storage, _owner(now))
        before = now
    token, numbers = uuid.uuid4().hex, itertools.count()
    written = other = b""

    def renew() -> None:
        nonlocal written
        written = f"{_process()};{token};{next(numbers)}".encode()
        storage.write(FILE, written)

    renew()
    time.sleep(RENEW_S / 10)  # of two processes that came at once, the last writer wins
    if (present := storage.read(FILE)) != written:
        raise _refusal(storage, _owner(present or b"a process"))

    def renew_unless_taken() -> None:
        """Interrupt the command if another one took the folder while this process was suspended."""
        nonlocal other
        with suppress(BadInput):  # the command itself will raise it
            present = storage.read(FILE)
            if other or (present is not None and token.encode() not in present):
                other = other or present or b""
                # Nothing more may be written. A signal, unlike `interrupt_main`, also ends what waits.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                renew()

    try:
        with poll(renew_unless_taken, RENEW_S):
            yield
    except KeyboardInterrupt:
        if other:
            raise _refusal(storage, _owner(other)) from None
        raise
    finally:
        if not other:
            with suppress(OSError):
                storage.delete(FILE)


def _owner(content: bytes) -> str:
    return content.decode(errors="replace").split(";")[0]


def _process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refusal(storage: Storage, owner: str) -> BadInput:
    return BadInput(f"{owner or 'another process'} writes to it", storage.place, REMEDY)
