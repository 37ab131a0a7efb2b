"""Runs tasks on Ray: each as a Ray task, or in actors that keep what is built once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cluster.executors.object_store import fetched
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import (
    NOTHING,
    Attempts,
    Context,
    Done,
    Executor,
    Once,
    Task,
    Tasks,
    Watch,
    bound,
    built,
)
from pyrite.cluster.executors.waiting import Ask, waits_said
from pyrite.cluster.executors.worker import TaskOrigin, origin_of, portable
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import POLL_S

if TYPE_CHECKING:
    import ray

Answer = tuple[Any, Exception | None]


class RayExecutor(Executor):
    """Runs tasks wherever the cluster has room. This process must be connected to it.

    A task whose process or machine is lost starts again, up to `TASK_RESTARTS` times. Bodies report nothing on the way.

    Args:
        shared: further keyword arguments of every body. Values go into the object store once; a mapping may hold
            object references, which are opened where the task runs. Each `Once` is built once per process, and
            needs `actors`.
        at_once: returns how many tasks may run now; None leaves it to Ray.
        actors: what each actor takes, if tasks run in actors, of which a lost one is replaced; None runs each as a Ray
            task.
        name: the name of the actors on the dashboard.
    """

    def __init__(
        self,
        shared: Mapping[str, Any] = NOTHING,
        at_once: Callable[[], int | None] = lambda: None,
        actors: Resources | None = None,
        name: str = "Worker",
    ) -> None:
        self.shared, self.at_once, self.actors, self.name = shared, at_once, actors, name

    def _run(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        running: dict[ray.ObjectRef, Task] = {}
        workers = _InTasks() if self.actors is None else _InActors(self.actors, self.name)
        with waits_said(lambda: workers.asks(list(running.values())), watch.waits):
            yield from self._ended(source, watch, retries, stop, running, workers)

    def _ended(
        self,
        source: Tasks,
        watch: Watch,
        retries: int,
        stop: Callable[[], bool],
        running: dict[ray.ObjectRef, Task],
        workers: _InTasks | _InActors,
    ) -> Iterator[Done]:
        """Run tasks; `running` holds those that have started."""

        from pyrite.cluster.executors.lost_process import answer_of, is_draining, is_loss, loss_reason

        shared, attempts = _stored(self.shared), Attempts(retries)
        again: list[Task] = []
        try:
            while True:
                for task in self._new(source, again, running, stop):
                    running[workers.start(task, shared)] = task
                    watch.started(task)
                if not running:
                    return
                (ref,), _ = ray.wait(list(running))
                task = running.pop(ref)
                value, error = answer_of(ref)
                draining = is_draining(error)
                lost = error is not None and not draining and is_loss(error)
                workers.ended(ref, lost)
                if draining:
                    watch.moved(task.key, str(error))
                    again.append(task)
                    continue
                final = None if error is None else attempts.after(task.key, error, loss_reason(error) if lost else None)
                if error is not None and final is None:
                    watch.retrying(task.key, error)
                    again.append(task)
                    if lost:
                        time.sleep(POLL_S)  # the cluster must notice that the machine is gone
                    continue
                done = Done(task, value, final)
                watch.ended(done)
                source.ended(done)
                yield done
        finally:
            workers.close(running)

    def _new(
        self, source: Tasks, again: list[Task], running: Mapping[Any, Any], stop: Callable[[], bool]
    ) -> Iterator[Task]:
        """Yield tasks to start, those that are run again first, as long as there is room."""
        while not stop() and len(running) < (self.at_once() or len(running) + 1):
            task = again.pop(0) if again else source.next()
            if not isinstance(task, Task):
                return
            yield task


class _InTasks:
    """Runs each task as a Ray task."""

    def __init__(self) -> None:
        self._remote: Any = ray.remote(max_retries=0)(_run_task)

    def asks(self, tasks: Sequence[Task]) -> list[Ask]:
        """Return what tasks take."""
        return [Ask(task.label or task.key, (task.resources.bundle(),)) for task in tasks]

    def start(self, task: Task, shared: Mapping[str, Any]) -> ray.ObjectRef:
        """Start a task, and return what it will answer."""
        options = {"name": task.label or task.key, **task.resources.ray_options()}
        return self._remote.options(**options).remote(task, shared, origin_of(task))

    def ended(self, ref: ray.ObjectRef, lost: bool) -> None:
        """Nothing is left of a task that has ended."""

    def close(self, running: Iterable[ray.ObjectRef]) -> None:
        """End what still runs."""
        for ref in running:
            ray.cancel(ref, force=True)  # at once: files are written whole, and locks end with their process


class _InActors:
    """Runs tasks in actors, which are started as they are needed and keep what is built once.

    Args:
        resources: what each takes.
    """

    def __init__(self, resources: Resources, name: str) -> None:
        self._resources = resources
        self._remote: Any = ray.remote(type(name, (_Worker,), {})).options(**resources.ray_options(), max_restarts=0)
        self._idle: list[Any] = []
        self._busy: dict[ray.ObjectRef, Any] = {}

    def asks(self, tasks: Sequence[Task]) -> list[Ask]:
        """Return what the actors take, if any works."""
        return [Ask("a worker", (self._resources.bundle(),)) for _ in tasks[:1]]

    def start(self, task: Task, shared: Mapping[str, Any]) -> ray.ObjectRef:
        """Start a task in an idle actor if there is one, and return what it will answer."""
        actor = self._idle.pop() if self._idle else self._remote.remote(shared)
        ref = actor.run.remote(task, origin_of(task))
        self._busy[ref] = actor
        return ref

    def ended(self, ref: ray.ObjectRef, lost: bool) -> None:
        """Keep the actor of a task that has ended, unless it is lost."""
        actor = self._busy.pop(ref)
        if not lost:
            self._idle.append(actor)

    def close(self, running: Iterable[ray.ObjectRef]) -> None:
        """End all actors."""
        for actor in [*self._idle, *self._busy.values()]:
            ray.kill(actor)


class _Worker:
    """Runs tasks in a process of Ray. Each shared argument is built once: the actor, and the body of a Ray task."""

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self.stored = shared
        self.shared: dict[str, Any] | None = None

    def run(self, task: Task, origin: TaskOrigin) -> Answer:
        """Return what a body returns or raises. Ray would print a raised error with its traceback."""

        from pyrite.cluster.executors.lost_process import leave

        origin.enter()
        try:
            if self.shared is None:
                self.shared = built(opened(self.stored))
            return bound(task, self.shared, Context(leave=leave))(), None
        except Exception as error:
            return None, portable(error)


def _run_task(task: Task, shared: Mapping[str, Any], origin: TaskOrigin) -> Answer:
    return _Worker(shared).run(task, origin)


def _stored(shared: Mapping[str, Any]) -> dict[str, Any]:

    def stored(value: Any) -> Any:
        small = isinstance(value, Once | ray.ObjectRef | str | int | float | bool | None)
        if small or (isinstance(value, Mapping) and any(isinstance(item, ray.ObjectRef) for item in value.values())):
            return value
        return ray.put(value)

    return {name: stored(value) for name, value in shared.items()}


def opened(shared: Any) -> Any:
    """Replace references, also those in mappings, by their values, which are read without a copy.

    Raises:
        ObjectFetchTimedOutError: if a lost node keeps one back: a loss, after which the work starts again elsewhere.
    """
    if not isinstance(shared, Mapping):
        return shared
    values = fetched(shared)
    if late := next((name for name in shared if name not in values), None):
        raise ray.exceptions.ObjectFetchTimedOutError(shared[late].hex(), b"", "")
    return {name: opened(value) if isinstance(shared[name], Mapping) else value for name, value in values.items()}
