"""Spreads the runs of a study without Ray over this process and others, which start while it still plans."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Self

from cluster.executors.resources import cores
from cluster.output.storage import Storage

MOST = 3
"""Processes beside this one: each takes 300 MiB, and they are for work of seconds."""

Report = Callable[[dict[str, Any]], None]


class WorkerProcess:
    """A process that trains one run at a time (`cluster.tune.local_worker`)."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "cluster.tune.local_worker", str(theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        self._connection = Connection(ours.detach())
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether it has imported all that it needs."""
        with suppress(EOFError, OSError):
            if not self._ready and self._connection.poll():
                self._ready = bool(self._connection.recv())
        return self._ready

    def execute(self, run: dict[str, Any], storage: Storage, report: Report) -> None:
        """Train a run there; arguments and errors as of `cluster.tune.study_run.study_run`.

        Raises:
            ChildProcessError: if the process has ended.
        """
        try:
            self._connection.send((run, storage, sys.path))
            while True:
                goes_on, told = self._connection.recv()
                if not goes_on:
                    break
                report(told)
        except (EOFError, OSError):
            self.close()
            what = f"the process that trained it has ended (exit code {self._process.returncode})"
            raise ChildProcessError(what) from None
        except BaseException:  # nobody waits for the rest of the run
            self.close()
            raise
        if told is not None:
            raise told

    @property
    def alive(self) -> bool:
        """Whether it can be given another run."""
        return not self._connection.closed

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.alive:
            self._connection.close()
            self._process.kill()
            self._process.wait()


class LocalWorkers:
    """This process, and others beside it as soon as they are ready.

    Args:
        count: of the others.
    """

    def __init__(self, count: int) -> None:
        self._starting = [WorkerProcess() for _ in range(count)]
        self._started: list[WorkerProcess] = []
        self._idle: queue.SimpleQueue[WorkerProcess | None] = queue.SimpleQueue()
        self._idle.put(None)

    @classmethod
    def foreseen(cls, overrides: Sequence[str]) -> Self:
        """Processes for a study of which no more is known than its command line.

        They import what trains rankers while this one reads, plans and prepares. A study on a cluster has none, and one
        with `concurrent=N` no more than make N with this one.
        """
        elsewhere = "RAY_ADDRESS" in os.environ or any(
            text == "local=false" or text.startswith("address=") for text in overrides
        )
        asked = [text.removeprefix("concurrent=") for text in overrides if text.startswith("concurrent=")]
        most = int(asked[-1]) - 1 if asked and asked[-1].isdecimal() else MOST  # else it is refused, or null
        return cls(0 if elsewhere else max(0, min(cores() - 1, MOST, most)))

    def keep(self, most: int | None) -> None:
        """End those with whom more runs would go on at once than so many, which only a resumed study's files say.

        Args:
            most: `concurrent` of the study; None keeps them all.
        """
        while most is not None and len(self._starting) >= max(1, most):
            self._starting.pop().close()

    def at_once(self) -> int:
        """How many runs may go on now."""
        for worker in [each for each in self._starting if each.ready]:
            self._starting.remove(worker)
            self._started.append(worker)
            self._idle.put(worker)
        return 1 + sum(each.alive for each in self._started)

    def execute(
        self,
        here: Callable[[dict[str, Any], Report], None],
        storage: Storage,
        run: dict[str, Any],
        report: Report,
    ) -> None:
        """Train a run wherever there is room; called from `at_once` threads at most.

        Args:
            here: trains it in this process.
            storage: the study's folder.
            run: as `cluster.tune.study_run.described`.
            report: told how far it is.
        """
        worker = self._idle.get()
        try:
            if worker is None:
                here(run, report)
            else:
                worker.execute(run, storage, report)
        finally:
            if worker is None or worker.alive:
                self._idle.put(worker)

    def close(self) -> None:
        """End all other processes."""
        for worker in [*self._starting, *self._started]:
            worker.close()
