"""Locks an output folder, to which one command at a time writes, and files, each of which one process makes."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pyrite.cluster.limits import LOCK_RENEW_S
from pyrite.cluster.output.storage import Storage, unwritable
from pyrite.cluster.output.throttle import poll
from pyrite.ranking.errors import BadInput
from pyrite.ranking.lazy import psutil
from pyrite.ranking.links import refuse_links

FILE = ".claimed"
"""File that names the process that writes to the folder. It is deleted when the process ends."""
REMEDY = "wait for it or stop it, or choose another out="


@contextmanager
def output_lock(storage: Storage) -> Iterator[None]:
    """Hold a folder while a command writes to it; refuse one that can't be written, or that another process holds.

    In a local or shared folder the claim is a lock of the operating system, which ends with its process. URIs, and some
    shared folders, have no locks; there the claim is a file that is renewed. A file that does not change for three
    renewals belongs to a process that was killed. Clocks of two machines differ and are not compared. A process that
    was suspended for that long finds another process's file when it continues, and ends.

    A folder with links in it is refused (`pyrite.ranking.links`).
    """
    if storage.local:
        refuse_links(storage.path(""))
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
    here = re.fullmatch(rf"process (\d+) on {re.escape(socket.gethostname())}", _owner(content))
    return here is None or psutil.pid_exists(int(here[1]))  # on another machine its file is the only sign


@contextmanager
def _locked(storage: Storage) -> Iterator[bool]:
    """Hold a lock of the operating system; yield False if the file system has none."""
    path = Path(storage.path(FILE))
    try:
        file = open_locked(path, wait=False)
    except Busy:
        raise _refusal(storage, _owner(storage.content(FILE))) from None
    except OSError as error:
        raise unwritable(error, storage.place, "choose another out=") from None
    if file is None:
        yield False
        return
    try:
        try:
            os.ftruncate(file, 0)
            os.write(file, _process().encode())
        except OSError as error:
            raise unwritable(error, storage.place, "choose another out=") from None
        yield True
    finally:
        with suppress(OSError):  # while it is locked: the next process creates a new file
            path.unlink()
            path.parent.rmdir()  # if the command wrote nothing
        os.close(file)


@contextmanager
def _renewed(storage: Storage) -> Iterator[None]:
    """Hold a file that changes regularly."""
    claim = _Claim(storage)
    claim.take()
    try:
        with poll(claim.look, LOCK_RENEW_S):
            yield
    except KeyboardInterrupt:
        if claim.other:
            raise _refusal(storage, _owner(claim.other)) from None
        raise
    finally:
        claim.release()


class _Claim:
    """A file in an output folder by which a process that renews it holds the folder.

    Attributes:
        other: the file of another process that took the folder; empty while there is none.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage, self.other = storage, b""
        self._token, self._numbers = uuid.uuid4().hex, itertools.count()

    def take(self) -> None:
        """Write the file, once that of another process has not changed for three renewals; refuse one that does."""
        before, deadline = self.storage.content(FILE), time.monotonic() + 3 * LOCK_RENEW_S
        while before and time.monotonic() < deadline:
            time.sleep(LOCK_RENEW_S / 10)
            now = self.storage.content(FILE)
            if now not in (b"", before):
                raise _refusal(self.storage, _owner(now))
            before = now
        written = self._renew()
        time.sleep(LOCK_RENEW_S / 10)  # of two processes that came at once, the last writer wins
        if (present := self.storage.content(FILE)) != written:
            raise _refusal(self.storage, _owner(present or b"a process"))

    def look(self) -> None:
        """Renew the file; interrupt the command if another one took the folder while this process was suspended."""
        with suppress(BadInput):  # the command itself will raise it
            present = self.storage.content(FILE)
            if present and self._token.encode() not in present:
                self.other = present
            if self.other:
                # Nothing more may be written. A signal, unlike `interrupt_main`, also ends what waits.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                self._renew()

    def release(self) -> None:
        """Delete the file, unless it is another's."""
        if not self.other:
            with suppress(OSError):
                self.storage.delete(FILE)

    def _renew(self) -> bytes:
        written = f"{_process()};{self._token};{next(self._numbers)}".encode()
        self.storage.write(FILE, written)
        return written


def _owner(content: bytes) -> str:
    return content.decode(errors="replace").split(";")[0]


def _process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refusal(storage: Storage, owner: str) -> BadInput:
    return BadInput(f"{owner or 'another process'} writes to it", storage.place, REMEDY)


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def file_lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file while it is made; a second process waits, and finds the file.

    The lock is one of the operating system on NAME.lock next to the file, and ends with the process that holds it. If
    a disk has no locks or can't be written, no process waits: the file may be made twice, complete each time. Without
    `wait`, a lock that is not free raises `Busy`.
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
    """Create a file and lock it; return it, open, or None if its disk has no locks.

    Without `wait`, a lock that is not free raises `Busy`. A file that can't be created raises an OSError.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with ExitStack() as closing:
            closing.callback(os.close, file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Busy(str(path)) from None
            except OSError:
                return None
            with suppress(FileNotFoundError):  # the process that held it has removed it
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    closing.pop_all()
                    return file
