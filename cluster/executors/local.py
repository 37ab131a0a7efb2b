"""Runs tasks on this machine without Ray: in this process, and in warm processes next to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from pyrite.cluster.executors.processes import NO_PROCESSES, Processes, ProcessLost, WarmProcess
from pyrite.cluster.executors.task import (
    NOTHING,
    Attempts,
    Context,
    Done,
    Executor,
    Report,
    Task,
    Tasks,
    Watch,
    bound,
    built,
)
from pyrite.cluster.limits import AFTER_LOSS_S, POLL_S


class _TaskEnded(BaseException):
    """Ends a body in a thread whose command has ended."""


class LocalExecutor(Executor):
    """Runs tasks in this process, in the order in which they are handed out.

    Args:
        threads: tasks at once in this process. With 1, and without `processes`, they run in the calling thread.
        processes: warm processes that run further tasks at once.
        shared: further keyword arguments of every body; each `Once` is built once per process.
        here: values that replace shared ones in this process.
    """

    def __init__(
        self,
        threads: int = 1,
        processes: Processes = NO_PROCESSES,
        shared: Mapping[str, Any] = NOTHING,
        here: Mapping[str, Any] = NOTHING,
    ) -> None:
        self.threads, self.processes, self.shared, self.here = threads, processes, shared, here
        self._built: dict[str, Any] | None = None
        self._lock, self._over = threading.RLock(), threading.Event()

    def _run(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        self._over.clear()
        alone = self.threads == 1 and self.processes is NO_PROCESSES
        return (self._in_turn if alone else self._at_once)(source, watch, retries, stop)

    def _in_turn(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        """Run tasks in the calling thread."""
        while not stop() and isinstance(task := source.next(), Task):
            done = self._attempt(task, watch, retries)
            source.ended(done)
            yield done

    def _at_once(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        """Run tasks in threads, each of which may wait for another process."""
        with ThreadPoolExecutor(self.threads + len(self.processes)) as pool:
            running: set[Future[Done]] = set()
            try:
                while True:
                    while len(running) < self._room() and not stop():
                        if not isinstance(task := source.next(), Task):
                            break
                        running.add(self._submit(pool, task, watch, retries))
                    if not running:
                        return
                    ready = set[Future[Done]]()
                    while not ready:  # Polars restarts what Ctrl-C interrupts, so that a wait has to end by itself
                        ready, running = wait(running, POLL_S, FIRST_COMPLETED)
                    for done in [future.result() for future in ready]:
                        source.ended(done)
                        yield done
            finally:
                self._over.set()
                if running:
                    self.processes.kill()

    def _submit(self, pool: ThreadPoolExecutor, task: Task, watch: Watch, retries: int) -> Future[Done]:
        """Run a task in whichever process is free."""
        process = self.processes.take()
        future = pool.submit(self._attempt, task, watch, retries, process)
        future.add_done_callback(lambda _: self.processes.give_back(process))
        return future

    def _attempt(self, task: Task, watch: Watch, retries: int, process: WarmProcess | None = None) -> Done:
        """Run a task here or in another process, again if it raises an error or that process is lost."""

        def report(report: dict[str, Any]) -> None:
            if self._over.is_set():
                raise _TaskEnded
            with self._lock:
                watch.progress(task.key, report)

        attempts = Attempts(retries)
        with self._lock:
            watch.started(task)
            if process is None and self._built is None:
                self._built = built({**self.shared, **self.here})
        done = None
        while done is None:
            try:
                done = Done(task, self._body(task, report, process)())
            except _TaskEnded:
                return Done(task, stopped=True)
            except Exception as error:  # the caller of `run` decides what an error ends
                # A signal to all processes of a command, such as Ctrl-C, ends them in any order.
                lost = isinstance(error, ProcessLost)
                if self._over.wait(AFTER_LOSS_S if lost else 0):
                    return Done(task, stopped=True)
                gone = process if lost and process is not None and not process.alive else None  # not the body's
                done = self._after(error, task, attempts.after(task.key, error, str(error) if gone else None), watch)
                if done is None and gone is not None:
                    gone.restart()
        with self._lock:
            watch.ended(done)
        return done

    def _after(self, error: Exception, task: Task, final: Exception | None, watch: Watch) -> Done | None:
        """Return how a task ends after an error; None if it runs again."""
        if final is not None:
            return Done(task, error=final)
        with self._lock:
            watch.retrying(task.key, error)
        return None

    def _body(self, task: Task, report: Report, process: WarmProcess | None) -> Callable[[], Any]:
        """Return what runs a task, here or in another process."""
        if process is None:
            return bound(task, self._built or {}, Context(report))
        return partial(process.run, task, self.shared, report)

    def _room(self) -> int:
        return self.threads + self.processes.ready()
