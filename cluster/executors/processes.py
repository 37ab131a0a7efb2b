"""Starts Python processes that stay warm between tasks: they import once what tasks need, and run one at a time."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Self

from pyrite.cluster.config.override import values_by_key
from pyrite.cluster.executors.task import Report, Task
from pyrite.cluster.executors.worker import origin_of
from pyrite.cluster.limits import LOCAL_PROCESSES
from pyrite.ranking.cores import cores

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from pyrite.cluster.executors.worker import main; "
    "main(int(sys.argv[1]), sys.argv[3], int(sys.argv[4]))"
)
"""Runs the worker with the module path of this process. The working folder is on it only if it is on ours."""


class ProcessLost(ChildProcessError):
    """A process that ended while it ran a task, or was ended by a signal."""


class WarmProcess:
    """One process, which runs `pyrite.cluster.executors.worker`. It calls `warm_up`, "package.module:function",
    first.
    """

    def __init__(self, warm_up: str = "") -> None:
        self.warm_up = warm_up
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [str(theirs.fileno()), json.dumps(sys.path), self.warm_up, str(os.getpid())]
            command = [sys.executable, "-P", "-c", BOOT, *arguments]
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

    @property
    def alive(self) -> bool:
        """Whether it can be given another task."""
        return not self._connection.closed

    def run(self, task: Task, shared: Mapping[str, Any], report: Report) -> Any:
        """Run a task there, and raise what its body raises, or `ProcessLost` if the process ended."""
        try:
            if not self._ready:
                self._ready = bool(self._connection.recv())
            self._connection.send((task, dict(shared), sys.path, origin_of(task)))
            while True:
                kind, value = self._connection.recv()
                if kind != "report":
                    break
                report(value)
        except (EOFError, OSError):
            self.close()
            raise ProcessLost(f"exit code {self._process.returncode}") from None
        except BaseException:  # nothing waits for the rest of the task
            self.close()
            raise
        if kind == "error":
            raise value
        return value

    def restart(self) -> None:
        """Start another process instead."""
        self.close()
        self._start()

    def kill(self) -> None:
        """Kill the process while another thread waits for its task."""
        self._process.kill()

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.alive:
            self._connection.close()
            self._process.kill()
            self._process.wait()


class Processes:
    """A fixed number of warm processes, and the calling one unless `caller` is false.

    They start at once, and count as room as soon as they are ready.
    """

    def __init__(self, count: int, warm_up: str = "", caller: bool = True) -> None:
        self._starting = [WarmProcess(warm_up) for _ in range(count)]
        self._started: list[WarmProcess] = []
        self._idle: queue.SimpleQueue[WarmProcess | None] = queue.SimpleQueue()
        if caller:
            self._idle.put(None)

    @classmethod
    def for_command(cls, overrides: Sequence[str], warm_up: str) -> Self:
        """Start processes for a study of which only the command line is known.

        They import what trains rankers while this process reads, plans and prepares. A study on a cluster has none, and
        one with `concurrent=N` at most N including this process.
        """
        given = values_by_key(overrides)
        elsewhere = "RAY_ADDRESS" in os.environ or "address" in given or given.get("local") == "false"
        requested = given.get("concurrent", "null")
        # Anything else is refused later, or is null.
        most = int(requested) - 1 if requested.isdecimal() else LOCAL_PROCESSES
        return cls(0 if elsewhere else max(0, min(cores() - 1, LOCAL_PROCESSES, most)), warm_up)

    def __len__(self) -> int:
        return len(self._starting) + len(self._started)

    def keep(self, count: int) -> None:
        """End the processes beyond a count."""
        while self._starting and len(self) > count:
            self._starting.pop().close()

    def ready(self) -> int:
        """Return how many processes can run a task now."""
        for process in [process for process in self._starting if process.ready]:
            self._starting.remove(process)
            self._started.append(process)
            self._idle.put(process)
        return sum(process.alive for process in self._started)

    def take(self) -> WarmProcess | None:
        """Wait for a free process, and return it. None is the calling process."""
        return self._idle.get()

    def give_back(self, process: WarmProcess | None) -> None:
        """Make a process free for another task."""
        if process is None or process.alive:
            self._idle.put(process)

    def kill(self) -> None:
        """Kill all processes. Those that wait for a task there get `ProcessLost`."""
        for process in self._started:
            process.kill()

    def close(self) -> None:
        """End all processes."""
        for process in [*self._starting, *self._started]:
            process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class NoProcesses(Processes):
    """The calling process alone, in which any number of tasks may run at once."""

    def __init__(self) -> None:
        super().__init__(0, caller=False)

    def take(self) -> None:
        """Return the calling process, which is always free."""

    def give_back(self, process: WarmProcess | None) -> None:
        """The calling process is free anyway."""


NO_PROCESSES = NoProcesses()


def in_process(body: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return what "package.module:function" returns in another process, so that its imports don't stay in this one."""
    process = WarmProcess()
    try:
        return process.run(Task("", body, arguments or {}), {}, lambda report: None)
    finally:
        process.close()
