"""Locks an output folder, so that one command at a time writes to it."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from cluster.output.storage import Storage, unwritable
from cluster.output.throttle import poll
from ranking.errors import BadInput

FILE = ".claimed"
"""Says which process writes to the folder; it is taken away when that ends."""
BEAT = 10.0
"""Seconds after which a claim that no lock stands for is renewed."""
REMEDY = "wait for it or stop it, or choose another out="


@contextmanager
def output_lock(storage: Storage) -> Iterator[None]:
    """Hold a folder while a command writes to it; it is seen first of all whether anything can be written there.

    In a local or shared folder the claim is a lock of the operating system, which ends with its process, however that
    ends. What lies behind a URI has no locks, and some shared folders have none: there the claim is a file that is
    renewed. One that stays as it is for three renewals is of a process that was killed. No clock is asked, for those
    of two machines differ. A process that only slept so long finds another's file when it wakes, and ends.

    Args:
        storage: the folder.

    Raises:
        BadInput: where another process holds it.
        Unwritable: where nothing can be written.
    """
    with ExitStack() as held:
        if not storage.local or not held.enter_context(_locked(storage)):
            held.enter_context(_renewed(storage))
        storage.tidy()
        try:
            yield
        finally:
            storage.tidy()


def is_held(storage: Storage) -> bool:
    """Whether a command writes to a folder now, as far as one can see from outside; takes no lock."""
    content = storage.read(FILE)
    if content is None:
        return False
    words = _who(content).split(" on ")
    number = words[0].removeprefix("process ")
    if words[-1] != socket.gethostname() or not number.isdigit():
        return True  # of another machine: a file that is there is all there is to see
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def _locked(storage: Storage) -> Iterator[bool]:
    """Hold a lock; False where the file system has none."""
    path = storage.path(FILE)
    file = _lock(storage, path)
    if file is None:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):  # as long as it is ours: the next one makes a file of its own
            os.unlink(path)
            os.rmdir(os.path.dirname(path))  # if nothing came of it
        os.close(file)


def _lock(storage: Storage, path: str) -> int | None:
    """The file, locked."""
    try:
        while True:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.read(file, 1000).decode(errors="replace")
                os.close(file)
                raise _refusal(storage, who) from None
            except OSError:
                os.close(file)
                return None
            if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(file)):
                break
            os.close(file)  # whoever held it has ended meanwhile, and taken this file away
        try:
            os.ftruncate(file, 0)
            os.write(file, _process().encode())
        except OSError:
            os.close(file)
            raise
    except OSError as error:
        raise unwritable(error, storage.place, "choose another out=") from None
    return file


@contextmanager
def _renewed(storage: Storage) -> Iterator[None]:
    """Hold a file that changes every so often."""
    before, patience = storage.read(FILE), time.monotonic() + 3 * BEAT
    while before is not None and time.monotonic() < patience:
        time.sleep(BEAT / 10)
        now = storage.read(FILE)
        if now is not None and now != before:
            raise _refusal(storage, _who(now))
        before = now
    token, numbers = uuid.uuid4().hex, itertools.count()
    written = stranger = b""

    def renew() -> None:
        nonlocal written
        written = f"{_process()};{token};{next(numbers)}".encode()
        storage.write(FILE, written)

    renew()
    time.sleep(BEAT / 10)  # of two that came at once, one has written last
    if (there := storage.read(FILE)) != written:
        raise _refusal(storage, _who(there or b"a process"))

    def renew_unless_taken() -> None:
        """Who wakes from a stall of three beats may find that another command has taken the folder for free."""
        nonlocal stranger
        with suppress(BadInput):  # the command itself will say so
            there = storage.read(FILE)
            if stranger or (there is not None and token.encode() not in there):
                stranger = stranger or there or b""
                # Nothing more may be written. A signal, unlike `interrupt_main`, also ends what waits.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                renew()

    try:
        with poll(renew_unless_taken, BEAT):
            yield
    except KeyboardInterrupt:
        if stranger:
            raise _refusal(storage, _who(stranger)) from None
        raise
    finally:
        if not stranger:
            with suppress(OSError):
                storage.delete(FILE)


def _who(content: bytes) -> str:
    return content.decode(errors="replace").split(";")[0]


def _process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _refusal(storage: Storage, who: str) -> BadInput:
    return BadInput(f"{who or 'another process'} writes to it", storage.place, REMEDY)
