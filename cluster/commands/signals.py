"""Ends a command in order when the system asks it to: SIGTERM and SIGHUP interrupt it as Ctrl-C does."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyrite.ranking.whole_file import FULL

if TYPE_CHECKING:
    from rich.console import Console

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received: list[int] = []
"""Signals that ended this command: Ray raises a `KeyboardInterrupt` of its own for those that arrive while it waits."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: a batch system, `docker stop`, `timeout`, or a terminal that was closed."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


@contextmanager
def handled_signals(restore: bool) -> Iterator[None]:
    """Raise `Terminated` in the main thread on SIGTERM and SIGHUP. SIGHUP stays ignored under `nohup`.

    A signal whose interrupt Python ignores, because it arrived in a finalizer or while garbage was collected, is sent
    again; if it arrived after a fork, the lock is released that it kept from being released. A full disk shows no
    traceback of a thread or a finalizer: the command reports it in one line.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, usual = {signum: signal.getsignal(signum) for signum in SIGNALS}, sys.unraisablehook
    of_threads = threading.excepthook

    def again(ignored: sys.UnraisableHookArgs) -> None:
        _release_after_fork(ignored.object)
        if _is_full(ignored.exc_value):
            return None
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            return usual(ignored)
        main, signum = threading.main_thread().ident, getattr(ignored.exc_value, "signum", signal.SIGINT)
        timer = threading.Timer(0.01, signal.pthread_kill, [main, signum])  # until then the finalizer has ended
        timer.daemon = True
        return timer.start()

    def in_thread(failed: threading.ExceptHookArgs) -> None:
        if not _is_full(failed.exc_value):
            of_threads(failed)

    sys.unraisablehook, threading.excepthook = again, in_thread
    for signum, handler in before.items():
        if signum != signal.SIGINT and handler != signal.SIG_IGN:
            signal.signal(signum, _terminate)
    try:
        yield
    finally:
        _received.clear()
        if restore:
            sys.unraisablehook, threading.excepthook = usual, of_threads
        for signum, handler in before.items() if restore else ():
            signal.signal(signum, handler)


def _release_after_fork(hook: object) -> None:
    """Release the lock of `logging`, if the hook that does so after each fork was interrupted before it had done so.

    Any thread that logs would wait for it for ever. From Python 3.13 on, the hook is no code that can be interrupted.
    """
    lock = vars(logging)["_lock"]
    if hook is vars(logging).get("_releaseLock", lock) and lock._is_owned():
        lock.release()


def _is_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in FULL


def _terminate(signum: int, frame: Any) -> None:
    _received.append(signum)
    raise Terminated(signum)


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupted command, by the convention of shells: 130, 143 or 129."""
    return 128 + next(iter(_received), error.signum if isinstance(error, Terminated) else signal.SIGINT)


def ignore_further_signals() -> None:
    """Let a command that ends anyway end in order, however often Ctrl-C is pressed."""
    if threading.current_thread() is threading.main_thread():
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)


def discard_output(console: Console) -> None:
    """Let a command continue whose output nothing reads any more, as after `| head`: results are in files."""
    console.quiet = True
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())  # what is left in the buffer is written at the end


def replace_unprintable() -> None:
    """Print a replacement for characters that the encoding of the output lacks, as in a batch system's log."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def listen() -> None:
    """Let `ray job stop` interrupt a job as Ctrl-C does, also on a cluster that was started with SIGINT ignored."""
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
