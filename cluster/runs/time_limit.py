"""Ends a run that takes longer than its limit, even if it hangs."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from ranking.errors import BadInput

GRACE_S = 30.0
"""Seconds after its limit in which a run may end in order, before its process is ended."""
REPEAT_S = 2.0
"""Seconds between two interruptions: code that ignores exceptions, such as a destructor, may swallow one."""


class RunTimeout(BadInput):
    """A run took longer than its limit. It is not repeated, because it would take as long again."""

    def __init__(self, what: str, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what, where, remedy)

    @classmethod
    def of(cls, limit: str | float) -> RunTimeout:
        """Return the error for a limit, as the user wrote it."""
        return cls(f"the run took longer than {limit} and was ended", "run_time", "give it more time, or null")


class _Expired(BaseException):
    """Is raised in the thread of a run whose time is over. No handler of `Exception` can stop it."""


@contextmanager
def time_limit(limit: str | float | None, seconds: float, on_hang: Callable[[], None]) -> Iterator[None]:
    """End the block if it takes too long.

    In the main thread a signal interrupts the block, and with it system calls that wait. In other threads an exception
    is raised as soon as Python code runs; if none does, `on_hang` is called and a worker process ends.

    Args:
        limit: the limit, as the user wrote it; None sets no limit.
        seconds: the limit in seconds.
        on_hang: called before a worker process that does not react is ended.

    Raises:
        RunTimeout: if the time is over.
    """
    if limit is None:
        yield
        return
    thread, over = threading.get_ident(), threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def expire(_: int, frame: FrameType | None) -> None:
        if not _imports(frame):
            raise _Expired

    def watch() -> None:
        waited = over.wait(seconds)
        end = time.monotonic() + GRACE_S
        while not waited and time.monotonic() < end:
            if not main and not _imports(sys._current_frames().get(thread)):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Expired))
            waited = over.wait(min(REPEAT_S, GRACE_S))
        if not waited and _is_worker():
            on_hang()
            os._exit(1)

    before = signal.signal(signal.SIGALRM, expire) if main else None
    threading.Thread(target=watch, daemon=True, name="run-time").start()
    try:
        if main:
            signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_S)
        yield
    except _Expired:
        raise RunTimeout.of(limit) from None
    finally:
        over.set()
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _imports(frame: FrameType | None) -> bool:
    """Return whether code imports a module, which would stay half imported for the next run of this process."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_worker() -> bool:
    """Return whether this process only runs tasks, so that ending it loses nothing else."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name.endswith(("executors.worker", "tune.local_worker")):
        return True
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
