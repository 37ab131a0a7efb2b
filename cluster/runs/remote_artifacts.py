"""Makes collections and parts in Ray tasks, so that a study's process holds none of them.

On a cluster a task makes each part that the cache lacks, as soon as the parts that it needs exist, and others open its
file. Machines that see neither the cache nor the user's files can't: then this process makes them, as without Ray. A
task on this machine checks options and computes keys, so that this process does not import what trains rankers: torch
and Numba would take half of its memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.executors.ray_tasks import RayExecutor
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import Done, ListedTasks, Task, Wait, Watch
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import POLL_S, TASK_RESTARTS
from pyrite.cluster.output.lock import Busy, file_lock
from pyrite.cluster.runs.artifacts import Artifacts, cached_part, reading_message
from pyrite.cluster.runs.shared_part import part_names
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput
from pyrite.ranking.precision import best_precision

GPU_SHARE = 0.01
"""The share of a GPU that a task takes which only asks what it can do."""


@dataclass(frozen=True)
class Described:
    """Keys, needs and messages of a configuration's parts, computed by a task; empty if they can't be computed.

    Attributes:
        keys: the key of each part, by its name.
        provenance: what a result is built from.
        needs: the parts from which each part is made.
        messages: what is printed while each part is made.
        as_runs: the parts whose tasks reserve what a run does.
    """

    keys: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    as_runs: list[str] = field(default_factory=list)


@dataclass
class RemoteArtifacts(Artifacts):
    """Artifacts that Ray tasks make.

    Args:
        join: connects this process to Ray, before the first task.
        on_wait: see `pyrite.cluster.executors.task.Watch.waits`.
    """

    join: Callable[[], object] = lambda: None
    on_wait: Callable[[str | None], object] = lambda line: None
    _described: dict[str, Described] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.note = cache(self.note)  # each message once: several processes may open the same

    def make(self, configs: Iterable[dict[str, Any]], only: Sequence[str] | None = None) -> None:
        configs, tasks = list(configs), dict[str, Task]()
        self._described = {}  # an agent may have been learned since
        for config in configs:
            key = digest([self.collection_key(config), config.get("evaluate")])
            if key not in tasks and not self.collections_cached(config):
                tasks[key] = self._task(key, config)
        visible = self._make_all(tasks.values())
        self._describe(configs)
        if visible and only != ():
            self._make_all(self._part_tasks(configs, only))

    def _part_tasks(self, configs: Iterable[dict[str, Any]], only: Sequence[str] | None) -> list[Task]:
        """Return the tasks that make the parts which are not there; `only` limits them by name."""
        tasks = dict[str, Task]()
        for config in configs:
            for name, key in self.keys(config).items():
                wanted = name != "agent" and (only is None or name in only)
                if wanted and key not in tasks and not self.place(config, key).exists():
                    tasks[key] = self._part_task(config, name)
        return list(tasks.values())

    def keys(self, config: dict[str, Any]) -> dict[str, str]:
        return self._description(config).keys or super().keys(config)

    def provenance(self, config: dict[str, Any]) -> dict[str, str]:
        return self._description(config).provenance or super().provenance(config)

    def best_precision(self, gpu: bool) -> str:
        self.join()
        resources = Resources(gpu=GPU_SHARE if gpu else 0)
        (done,) = RayExecutor().run([Task("best_precision", best_precision, {"gpu": gpu}, resources)])
        return str(done.result())

    def check(self, configs: Iterable[dict[str, Any]]) -> None:
        configs = list(configs)
        if self._ask(_check, configs) is None:
            super().check(configs)

    def cut_texts(self, configs: Iterable[dict[str, Any]]) -> list[str]:
        configs = list(configs)
        lines = self._ask(_cut_texts, configs)
        return super().cut_texts(configs) if lines is None else list(lines)

    def _opened_elsewhere(self, wanted: Mapping[str, tuple[dict[str, Any], str]]) -> dict[str, Any]:

        self.join()
        files = {key: (name, self.place(config, key)) for key, (config, name) in wanted.items() if name != "agent"}
        # No core is reserved: an object that was lost with its machine must come back while trials hold them all. So no
        # more tasks than machines: each would be a process, which takes longer to start than it takes to open them all.
        task: Any = ray.remote(num_cpus=0, scheduling_strategy="SPREAD", max_retries=TASK_RESTARTS)(_open)
        machines = len(alive_nodes())
        opened, present = dict[str, Any](), list[Any]()
        for keys in filter(None, (list(files)[machine::machines] for machine in range(machines))):
            *parts, there = task.options(num_returns=1 + len(keys)).remote({key: files[key] for key in keys})
            opened |= dict(zip(keys, parts, strict=True))
            present.append(there)
        return {key: opened[key] for keys in ray.get(present) for key in keys}

    def _task(
        self, key: str, config: dict[str, Any], name: str | None = None, needs: Iterable[str] = (), message: str = ""
    ) -> Task:
        arguments = {"config": config, "name": name}
        return Task(key, _make, arguments, needs=frozenset(needs), label=message or reading_message(config))

    def _part_task(self, config: dict[str, Any], name: str) -> Task:
        """Return the task that makes a part, after those that it needs."""
        keys, described = self.keys(config), self._description(config)
        needs = [keys[part] for part in described.needs[name]]
        task = self._task(keys[name], config, name, needs, described.messages[name])
        of_run = Resources.of_run(config["resources"]) if name in described.as_runs else task.resources
        return replace(task, resources=of_run)

    def _description(self, config: dict[str, Any]) -> Described:
        if _seedless(config) not in self._described:
            self._describe([config])
        return self._described[_seedless(config)]

    def _describe(self, configs: Iterable[dict[str, Any]]) -> None:
        distinct = {_seedless(config): config for config in configs}
        described = self._ask(_describe, list(distinct.values())) or [Described()] * len(distinct)
        self._described |= dict(zip(distinct, described, strict=True))

    def _ask(self, body: Callable[[list[dict[str, Any]]], Any], configs: list[dict[str, Any]]) -> Any:
        """Return what a task on this machine computes. None if it fails, and this process must find out why."""
        self.join()
        (done,) = RayExecutor().run([Task(body.__name__, body, {"configs": configs}, Resources(cpu=0, here=True))])
        return done.value

    def _make_all(self, tasks: Iterable[Task]) -> bool:
        """Run tasks, and return whether this process sees the files that they make, or must make everything itself."""
        tasks = list(tasks)
        if not tasks:
            return True

        self.join()
        for done in RayExecutor().run(_Making(tasks, self.note), watch=_Waiting(self.on_wait)):
            if isinstance(done.error, BadInput) and len(alive_nodes()) > 1:
                return False  # that machine may lack a file that is here
            if done.error is not None:
                raise done.error from None
            for line in done.value or ():
                self.note(line)
            if done.value is not None and not self._sees(done.task):
                return False
        return True

    def _sees(self, task: Task) -> bool:
        """Return whether the file that a task has made is visible here."""
        config, name = task.arguments["config"], task.arguments["name"]
        if name is None:
            return self.collections_cached(config, anew=True)
        path = self.place(config, task.key)
        with suppress(OSError):
            os.listdir(path.parent)  # makes a network's disk look again
        return path.exists()


class _Waiting(Watch):
    """Passes on that tasks wait."""

    def __init__(self, on_wait: Callable[[str | None], object]) -> None:
        self.on_wait = on_wait

    def waits(self, line: str | None) -> None:
        self.on_wait(line)


class _Making(ListedTasks):
    """Hands out tasks as soon as what they need exists, and again if another command is making the same."""

    def __init__(self, tasks: Iterable[Task], print: Callable[[str], None]) -> None:
        super().__init__(tasks)
        self.print = print

    def next(self) -> Task | Wait | None:
        task = super().next()
        if isinstance(task, Task):
            self.print(task.label)
        return task

    def ended(self, done: Done) -> None:
        if done.value is None and done.error is None:
            self.print(f"another command is {done.task.label}")
            time.sleep(POLL_S)
            self._waiting.append(done.task)
        else:
            super().ended(done)


def _make(config: dict[str, Any], name: str | None) -> list[str] | None:
    """Make a part, or all collections, and return messages; None if another command is making it: a task's body."""
    notes: list[str] = []
    artifacts = Artifacts(notes.append if name is None else lambda line: None, partial(file_lock, wait=False))
    try:
        if name is None:
            artifacts.open_collections(config)
        else:
            artifacts.collection(config)  # whose messages are known
            artifacts.note = notes.append
            artifacts.part(config, name)
    except Busy:
        return None
    return notes


def _describe(configs: list[dict[str, Any]]) -> list[Described]:
    from pyrite.cluster.runs import shared_parts  # noqa: F401  declares the parts

    artifacts = Artifacts()

    def described(config: dict[str, Any]) -> Described:
        provenance, keys = dict[str, str](), dict[str, str]()
        with suppress(BadInput):  # e.g. if an agent is not learned yet; it is raised when they are needed
            provenance = artifacts.provenance(config)
        with suppress(BadInput):
            keys = artifacts.keys(config)
        parts = {full_name: (part, name) for full_name, part, name in part_names(config)} if keys else {}
        needs = {full_name: part.needs(config, name) for full_name, (part, name) in parts.items()}
        messages = {full_name: part.message.format(name=name) for full_name, (part, name) in parts.items()}
        as_runs = [full_name for full_name, (part, _) in parts.items() if part.as_a_run]
        return Described(keys, provenance, needs, messages, as_runs)

    return [described(config) for config in configs]


def _check(configs: list[dict[str, Any]]) -> bool:
    Artifacts().check(configs)
    return True


def _cut_texts(configs: list[dict[str, Any]]) -> list[str]:
    return Artifacts().cut_texts(configs)


def _seedless(config: dict[str, Any]) -> str:
    """Return a digest of everything in a configuration that its parts could depend on: all but the seed."""
    return digest(config | {"seed": None})


def _open(files: Mapping[str, tuple[str, Path]]) -> Iterator[Any]:
    """Yield parts for the object store, one after the other; then the keys of those that this machine has."""
    present = []
    for key, (name, place) in files.items():
        part = cached_part(name, place)
        if part is not None:
            present.append(key)
        yield part
    yield present
