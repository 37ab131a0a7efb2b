"""Ends a run that exceeds its limits of time or memory, even if it hangs."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

from pyrite.cluster.config.durations import seconds_of
from pyrite.ranking.errors import BadInput

GRACE_S = 30.0
"""Seconds after a limit is reached in which a run may end in order, before its process is ended."""
REPEAT_S, SOON_S = 2.0, 0.05
"""Seconds between two interruptions: code that ignores exceptions, such as a destructor, may swallow one. And until the
next attempt where code imported a module, which is not interrupted."""
POLL_S = 0.2
"""Seconds between two looks at the memory that a process takes."""
GB = 1e9


class LimitReached(BadInput):
    """A run reached a limit. It is not repeated, because it would reach it again."""

    @classmethod
    def of(cls, option: str, limit: object) -> LimitReached:
        """Return the error for run_time or run_memory, whose value is as the user wrote it."""
        if option == "run_time":
            return cls(f"the run took longer than {limit} and was ended", option, "give it more time, or null")
        remedy = "give it more memory, or null; training.accumulate and training.chunk make a training need less"
        return cls(f"the run's process took more than {limit} GB of memory and was ended", option, remedy)


class _Ended(BaseException):
    """Is raised in the thread of a run that reached a limit. No handler of `Exception` can stop it."""


@contextmanager
def run_limits(
    run_time: str | float | None, run_memory: float | None, on_hang: Callable[[str], None]
) -> Iterator[None]:
    """End the block and raise `LimitReached` if it takes too long, or its process takes too much memory.

    In the main thread a signal interrupts the block, and with it system calls that wait. In other threads an exception
    is raised as soon as Python code runs; if none does, `on_hang` is called and a worker process ends.

    Args:
        run_time: the limit of time, as the user wrote it; None sets no limit.
        run_memory: GB that the process may take, without its children; None sets no limit.
        on_hang: called with the name of the limit before a worker process that does not react is ended.
    """
    if run_time is None and run_memory is None:
        yield
        return
    thread, over, reached = threading.get_ident(), threading.Event(), list[str]()
    interrupted = threading.Event()
    main = threading.current_thread() is threading.main_thread()
    end = time.monotonic() + seconds_of(run_time, "run_time") if run_time is not None else float("inf")

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not reached:  # not sent by the watcher
            if callable(before):
                before(number, frame)
        elif not (over.is_set() or _is_left_alone(frame)):
            interrupted.set()
            raise _Ended

    def limit_reached() -> str | None:
        if time.monotonic() >= end:
            return "run_time"
        too_much = run_memory is not None and psutil.Process().memory_info().rss > run_memory * GB
        return "run_memory" if too_much else None

    def watch() -> None:
        while (limit := limit_reached()) is None:
            left = max(end - time.monotonic(), 0)
            if over.wait(left if run_memory is None else min(left, POLL_S)):
                return
        reached.append(limit)
        last = time.monotonic() + GRACE_S
        while not over.is_set() and time.monotonic() < last:
            interrupted.clear()
            if main:
                signal.pthread_kill(thread, signal.SIGALRM)
            elif not _is_left_alone(sys._current_frames().get(thread)):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Ended))
                interrupted.set()
            if not over.wait(min(SOON_S, REPEAT_S, GRACE_S)) and interrupted.is_set():
                over.wait(min(REPEAT_S, GRACE_S))
        if not over.is_set() and _is_worker():
            on_hang(limit)
            os._exit(1)

    before = signal.signal(signal.SIGALRM, interrupt) if main else None
    watcher = threading.Thread(target=watch, daemon=True, name="run-limits")
    watcher.start()
    try:
        yield
    except _Ended:
        option = reached[0]
        raise LimitReached.of(option, {"run_time": run_time, "run_memory": run_memory}[option]) from None
    finally:
        over.set()
        watcher.join()  # it interrupts nothing after this
        if main:
            signal.signal(signal.SIGALRM, before)
        else:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)


BLOCK = inspect.unwrap(run_limits).__code__


def _is_left_alone(frame: FrameType | None) -> bool:
    """Return whether code must not be interrupted here.

    The block may have ended, or is about to. Or it imports a module, which would stay half imported for the next run of
    this process.
    """
    if frame is None:
        return False
    codes = [outer.f_code for outer, _ in traceback.walk_stack(frame)]
    imports = any(code.co_filename.startswith("<frozen importlib") for code in codes)
    return imports or frame.f_code.co_filename == contextlib.__file__ or any(code is BLOCK for code in codes)


def _is_worker() -> bool:
    """Return whether this process only runs tasks, so that ending it loses nothing else."""
    if getattr(sys.modules.get("pyrite.cluster.executors.worker"), "serving", False):
        return True
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
