"""Defines tasks and executors: what is run, how often a lost task is retried, and what comes out.

A body is a module-level function named by its path. It does not know where it runs: it gets its arguments, and a
`Context` if it has a parameter of that name. An executor runs bodies and yields a `Done` per task:

    >>> from pyrite.cluster.executors.local import LocalExecutor
    >>> tasks = [Task(f"root {n}", "math:sqrt", {"x": n}) for n in (4, 9)]
    >>> [done.result() for done in LocalExecutor().run(tasks)]
    [2.0, 3.0]
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from rich.console import Console

from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.waiting import log_wait
from pyrite.cluster.limits import TASK_RESTARTS
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.terminal import print_lines
from pyrite.ranking.errors import BadInput

Report = Callable[[dict[str, Any]], None]
"""Receives what a body reports while it runs."""


@dataclass(frozen=True)
class Task:
    """One piece of work.

    Args:
        key: a unique name, also of its result.
        body: the function to call, or its path, "package.module:function".
        needs: keys of the tasks that must end first.
        label: its name on Ray's dashboard; the key if it is empty.
        facts: what a `Watch` may show of it.
    """

    key: str
    body: str | Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    needs: frozenset[str] = frozenset()
    label: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Once:
    """An argument that is built once per process, by "package.module:name", and shared by all tasks there."""

    build: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """The end of a task: its value, what it raised or `TaskLost`, or that a scheduler stopped it."""

    task: Task
    value: Any = None
    error: Exception | None = None
    stopped: bool = False

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class TaskLost(BadInput):
    """A task whose process ended too often."""

    @classmethod
    def of(cls, key: str, times: int, reason: str) -> TaskLost:
        what = f"{key} ended its process {times} times without progress ({reason})"
        return cls(what, remedy="give it more memory or make it smaller, then continue with --resume")


class TaskFailed(RuntimeError):
    """An error of a body that would be the same again, so that the task is not run again."""


class Attempts:
    """Counts the losses and errors of each task. `retries` is that of `Executor.run`."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._losses, self._errors = Counter[str](), Counter[str]()
        self._reached: dict[str, int] = {}

    def reached(self, key: str, step: int) -> None:
        """Forget the losses of a task, and those of all together (""), if it has come further than ever."""
        if step > self._reached.get(key, 0):
            self._reached[key] = step
            self._losses[key] = self._losses[""] = 0

    def after(self, key: str, error: Exception, loss: str | None) -> Exception | None:
        """Count an error, or a loss with its reason, and return what the task ends with; None if it runs again."""
        return self.after_error(key, error) if loss is None else self.after_loss(key, loss)

    def after_loss(self, key: str, reason: str) -> TaskLost | None:
        """Count a loss, and return the error of a task that is given up; None if it runs again."""
        self._losses[key] += 1
        return TaskLost.of(key, self._losses[key], reason) if self._losses[key] >= TASK_RESTARTS else None

    def after_error(self, key: str, error: Exception) -> Exception | None:
        """Count an error of the body, and return it if the task ends with it; None if it runs again."""
        self._errors[key] += 1
        return error if isinstance(error, BadInput | TaskFailed) or self._errors[key] > self._retries else None


class Watch:
    """Is notified of what happens to tasks. Every method does nothing unless a subclass overrides it."""

    def started(self, task: Task) -> None:
        """A task has started, for the first time or again."""

    def progress(self, key: str, report: Mapping[str, Any]) -> None:
        """A body has reported."""

    def retrying(self, key: str, error: Exception) -> None:
        """A task is run again after an error, or `TaskLost`."""

    def moved(self, key: str, reason: str) -> None:
        """A task continues on another machine, because the current one will be taken away."""

    def waits(self, line: str | None) -> None:
        """Tasks wait for what no node has, as a line reports repeatedly; None once there is room."""

    def tick(self) -> None:
        """Is called every now and then while tasks run."""

    def ended(self, done: Done) -> None:
        """A task has ended."""


class Wait(Enum):
    """Is returned by `Tasks.next` if the next task depends on one that still runs."""

    WAIT = "wait"


class Tasks(Protocol):
    """Hands out tasks whose choice may depend on the results of earlier ones."""

    def next(self) -> Task | Wait | None:
        """Return the next task; `Wait.WAIT` if it depends on one that runs; None if there are no more."""

    def ended(self, done: Done) -> None:
        """Receive the end of a task, before `next` is called again."""


NOTHING: Mapping[str, Any] = MappingProxyType({})
"""No further arguments of bodies."""


class Executor(ABC):
    """Runs tasks somewhere."""

    def run(
        self,
        tasks: Iterable[Task] | Tasks,
        *,
        watch: Watch | None = None,
        retries: int = 0,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Done]:
        """Run tasks until all have ended, and yield a `Done` per task as soon as it ends.

        Args:
            tasks: a list, whose tasks start in its order, or `Tasks`.
            retries: times that a body that raises is run again. After `BadInput` and `TaskFailed` it never is.
            stop: returns whether no further task may start.
        """
        source = ListedTasks(tasks) if isinstance(tasks, Iterable) else tasks
        return self._run(source, watch or Watch(), retries, stop)

    @abstractmethod
    def _run(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        """Run tasks; see `run`."""


@dataclass(frozen=True)
class Context:
    """The connection of a running body to its executor. A body receives it as its parameter `context`.

    Args:
        report: receives what the body reports.
        leave: called every few seconds with a function that saves the state. If the machine will be taken away, it
            saves the state and ends this attempt (`pyrite.cluster.executors.lost_process.leave`).
    """

    report: Report = lambda report: None
    leave: Callable[[Callable[[], object]], None] = lambda keep: None


def located(path: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a path such as "package.module:function"."""
    if callable(path):
        return path
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def bound(task: Task, shared: Mapping[str, Any], context: Context) -> Callable[[], Any]:
    """Return a task's body with all of its arguments. In `shared` each `Once` is built already."""
    body = located(task.body)
    context_too = {"context": context} if "context" in inspect.signature(body).parameters else {}
    return partial(body, **shared, **task.arguments, **context_too)


def built(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return shared arguments with each `Once` built."""
    return {
        name: located(value.build)(**value.arguments) if isinstance(value, Once) else value
        for name, value in shared.items()
    }


class ListedTasks:
    """Hands out the tasks of a list in order, each once its `needs` have ended."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting = list(tasks)
        self._open = {task.key for task in self._waiting}

    def next(self) -> Task | Wait | None:
        if not self._waiting:
            return None
        for index, task in enumerate(self._waiting):
            if not task.needs & self._open:
                return self._waiting.pop(index)
        return Wait.WAIT

    def ended(self, done: Done) -> None:
        self._open.discard(done.task.key)


STEP = "epoch"
"""How far a task is, in any unit. `fold` and `max_epochs` belong to it."""
VALUE = "validation"
"""What it has reached at that step."""
WITHIN = "within"
"""Between two steps: the share of its work that it has done."""
BEGUN, AGAIN, ERROR, FINAL = "begun", "again", "error", "final"
"""In reports to Ray Tune: the first one; the pickled error after which a body is run again, or with which it ended; the
last one."""


def step_of(report: Mapping[str, Any]) -> int:
    """Return how far a task is over all of its folds; 0 before its first step."""
    return int(report.get("fold", 0) * report["max_epochs"] + report[STEP]) if STEP in report else 0


class LossLines(Watch):
    """Prints losses and waits, so that nothing is repeated or waits without a line about it.

    Args:
        kind: what a task is, e.g. shard.
        events: the log of the output folder.
    """

    def __init__(self, console: Console, kind: str, events: EventLog) -> None:
        self.console, self.kind, self.events = console, kind, events

    def retrying(self, key: str, error: Exception) -> None:
        print_lines(self.console, f"the process of {self.kind} {key} was lost; the {self.kind} runs again")

    def moved(self, key: str, reason: str) -> None:
        line = f"the machine of {self.kind} {key} will be taken away; the {self.kind} continues elsewhere"
        print_lines(self.console, line)

    def waits(self, line: str | None) -> None:
        log_wait(line, partial(print_lines, self.console), self.events)
