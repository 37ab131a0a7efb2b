"""Runs tasks on Ray: each as a Ray task, or in actors that keep what is built once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cluster.executors.resources import Resources
from cluster.executors.task import (
    POLL_S,
    Attempts,
    Context,
    Done,
    Executor,
    Once,
    Retry,
    Task,
    Tasks,
    Wait,
    Watch,
    bound,
    built,
)
from cluster.executors.worker import Origin, origin_of, portable

if TYPE_CHECKING:
    import ray

Answer = tuple[Any, Exception | None]


class RayExecutor(Executor):
    """Runs tasks wherever the cluster has room. This process must be connected to it.

    A task whose process or machine is lost starts again, up to `Retry.limit` times without progress. Bodies report
    nothing on the way.

    Args:
        shared: further keyword arguments of every body. Values go into the object store once; a mapping may hold
            object references, which are opened where the task runs. Each `Once` is built once per process, and
            needs `actors`.
        actors: processes that run all tasks, each of `resources`; None runs each task as a Ray task.
        at_once: returns how many tasks may run now; None leaves it to Ray.
        name: of the actors on the dashboard.
    """

    def __init__(
        self,
        shared: Mapping[str, Any] | None = None,
        actors: int | None = None,
        resources: Resources | None = None,
        at_once: Callable[[], int | None] = lambda: None,
        name: str = "Worker",
    ) -> None:
        self.shared, self.actors, self.resources = shared or {}, actors, resources or Resources()
        self.at_once, self.name = at_once, name

    def _run(self, source: Tasks, watch: Watch, retry: Retry, stop: Callable[[], bool]) -> Iterator[Done]:
        import ray

        from cluster.executors.lost_process import is_draining, is_loss

        attempts = Attempts(retry)
        places = _Places(self) if self.actors is None else _Actors(self, self.actors)
        again: list[Task] = []
        running: dict[ray.ObjectRef, Task] = {}
        try:
            while True:
                while not stop() and len(running) < (self.at_once() or len(running) + 1) and places.free():
                    task = again.pop(0) if again else source.next()
                    if task is None or task is Wait.WAIT:
                        break
                    running[places.start(task)] = task
                    watch.started(task)
                if not running:
                    return
                (ref,), _ = ray.wait(list(running))
                task = running.pop(ref)
                value: Any = None
                error: Exception | None = None
                try:
                    value, error = ray.get(ref)
                except ray.exceptions.RayError as raised:
                    error = raised
                draining = is_draining(error)
                lost = error is not None and not draining and is_loss(error)
                places.ended(ref, lost)
                if draining:
                    watch.moved(task.key, str(error))
                    again.append(task)
                    continue
                final: Exception | None = None
                if error is not None:
                    if lost:
                        final = attempts.after_loss(task.key, _reason(error))
                    else:
                        final = attempts.after_error(task.key, error)
                    if final is None:
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
            places.close(running)

    def share(self, value: Any) -> Any:
        """Return a reference to the value in the object store; a body receives the value."""
        import ray

        return ray.put(value)


class _Places:
    """Runs each task as a Ray task."""

    def __init__(self, executor: RayExecutor) -> None:
        import ray

        self._remote = ray.remote(max_retries=0)(_run_task)
        self._shared = _stored(executor.shared)

    def free(self) -> bool:
        return True

    def start(self, task: Task) -> ray.ObjectRef:
        remote: Any = self._remote.options(name=task.label or task.key, **task.resources.ray_options())
        return remote.remote(task, self._shared, origin_of(task))

    def ended(self, ref: ray.ObjectRef, lost: bool) -> None:
        """Nothing is kept between tasks."""

    def close(self, running: Iterable[ray.ObjectRef]) -> None:
        import ray

        for ref in running:
            ray.cancel(ref, force=True)  # at once: files are written whole, and locks end with their process


class _Actors:
    """Runs tasks in a fixed number of actors; a lost one is replaced."""

    def __init__(self, executor: RayExecutor, count: int) -> None:
        import ray

        self._actor: Any = ray.remote(type(executor.name, (_Worker,), {})).options(
            **executor.resources.ray_options(), max_restarts=0
        )
        self._shared, self._count = _stored(executor.shared), count
        self._idle: list[Any] = []
        self._busy: dict[ray.ObjectRef, Any] = {}

    def free(self) -> bool:
        return bool(self._idle) or len(self._busy) < self._count

    def start(self, task: Task) -> ray.ObjectRef:
        actor = self._idle.pop() if self._idle else self._actor.remote(self._shared)
        ref: ray.ObjectRef = actor.run.remote(task, origin_of(task))
        self._busy[ref] = actor
        return ref

    def ended(self, ref: ray.ObjectRef, lost: bool) -> None:
        actor = self._busy.pop(ref)
        if not lost:
            self._idle.append(actor)

    def close(self, running: Iterable[ray.ObjectRef]) -> None:
        import ray

        for actor in [*self._idle, *self._busy.values()]:
            ray.kill(actor)


class _Worker:
    """Runs tasks in a process of Ray. Each shared argument is built once: the actor, and the body of a Ray task."""

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self.stored = shared
        self.shared: dict[str, Any] | None = None

    def run(self, task: Task, origin: Origin) -> Answer:
        """Return what a body returns or raises. Ray would print a raised error with its traceback."""
        from cluster.executors.lost_process import leave

        origin.enter()
        try:
            if self.shared is None:
                self.shared = built(opened(self.stored))
            return bound(dereferenced(task), self.shared, Context(leave=leave))(), None
        except Exception as error:
            return None, portable(error)


def _run_task(task: Task, shared: Mapping[str, Any], origin: Origin) -> Answer:
    return _Worker(shared).run(task, origin)


def dereferenced(task: Task) -> Task:
    """Return the task with the values that `share` has stored as arguments."""
    import ray

    arguments = {
        name: ray.get(value) if isinstance(value, ray.ObjectRef) else value for name, value in task.arguments.items()
    }
    return replace(task, arguments=arguments)


def _stored(shared: Mapping[str, Any]) -> dict[str, Any]:
    import ray

    def stored(value: Any) -> Any:
        small = isinstance(value, Once | ray.ObjectRef | str | int | float | bool | None)
        if small or (isinstance(value, Mapping) and any(isinstance(item, ray.ObjectRef) for item in value.values())):
            return value
        return ray.put(value)

    return {name: stored(value) for name, value in shared.items()}


def opened(shared: Any) -> Any:
    """Replace references, also those in mappings, by their values, which are read without a copy."""
    import ray

    if isinstance(shared, Mapping):
        return {name: opened(value) for name, value in shared.items()}
    return ray.get(shared) if isinstance(shared, ray.ObjectRef) else shared


def _reason(error: Exception) -> str:
    from cluster.executors.lost_process import killed_for_memory

    if killed_for_memory(error):
        return "killed by Ray's memory monitor"
    return " ".join(str(error).split())[:200]
