"""Has collections and parts made in Ray tasks, so that a study's own process holds none of them.

Where a Ray is there already, a task makes each one that the cache lacks, as soon as what it is made of is there, and
others open its file. Machines that see neither the cache nor the user's files can't: then this process does it itself,
as where there is no Ray. Options are checked and keys are told by a task on this machine, so that this process imports
nothing of what trains rankers: torch and Numba would take half of its memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cluster.executors.lost_process import MAX_FAILURES_WITHOUT_PROGRESS
from cluster.output.file_lock import Busy, file_lock
from cluster.runs.artifacts import Artifacts, cached_part, said_of
from cluster.runs.part_keys import nearest_part
from ranking.backing import at_hand
from ranking.digest import digest
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.runs.parts import Part
    from pooling.systems.inputs import Rerank

Said = TypeVar("Said")
Told = tuple[dict[str, str] | None, dict[str, str] | None]
"""Keys and provenance of a configuration; None for what can't be told."""

PAUSE = 0.5
"""Seconds until what another command makes is asked for again."""


@dataclass(frozen=True)
class Job:
    """What one task makes.

    Args:
        config: of a run.
        name: of a part; None: the collections that the run reads.
        needs: keys of the jobs that come before it.
    """

    config: dict[str, Any]
    name: str | None = None
    needs: frozenset[str] = frozenset()


@dataclass
class RemoteArtifacts(Artifacts):
    """Artifacts that Ray tasks make.

    Args:
        join: connects this process to Ray, before the first task.
    """

    join: Callable[[], object] = lambda: None
    _said: set[str] = field(default_factory=set)
    _told: dict[str, Told] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tell, self.note = self.note, self._say
        super().__post_init__()

    def make(self, configs: Iterable[dict[str, Any]], only: Sequence[str] | None = None) -> None:
        configs, jobs = list(configs), dict[str, Job]()
        self._told = {}  # an agent may have been learned since
        for config in configs:
            key = digest([self._collections.key(config), config.get("evaluate")])
            if key not in jobs and not self._collections.are_cached(config):
                jobs[key] = Job(config)
        shared = self._make_all(jobs)
        self._tell_of(configs)
        if not shared or only == ():
            return
        jobs = {}
        for config in configs:
            keys = self.keys(config)
            for name, key in keys.items():
                wanted = name != "agent" and (only is None or name in only)
                if wanted and key not in jobs and not at_hand(self.place(config, key)):
                    jobs[key] = Job(config, name, frozenset(keys[each] for each in needed(config, name)))
        self._make_all(jobs)

    def keys(self, config: dict[str, Any]) -> dict[str, str]:
        told, _ = self._of(config)
        return super().keys(config) if told is None else told

    def provenance(self, config: dict[str, Any]) -> dict[str, str]:
        _, told = self._of(config)
        return super().provenance(config) if told is None else told

    def check(self, configs: Iterable[dict[str, Any]]) -> None:
        configs = list(configs)
        if self._ask(_check, configs) is None:
            super().check(configs)

    def share(self, config: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
        if not keys:
            return {}
        import ray

        self.join()
        files = {name: self.place(config, key) for name, key in keys.items() if name != "agent"}
        # No core is reserved: an object that was lost with its machine must come back while trials hold them all. So no
        # more tasks than machines: each would be a process, which takes longer to start than it takes to open them all.
        task: Any = ray.remote(num_cpus=0, scheduling_strategy="SPREAD", max_retries=MAX_FAILURES_WITHOUT_PROGRESS)(
            _open
        )
        machines = sum(node["Alive"] for node in ray.nodes())
        there, opened = list[Any](), dict[str, Any]()
        for names in filter(None, (list(files)[machine::machines] for machine in range(machines))):
            *parts, found = task.options(num_returns=1 + len(names)).remote({name: files[name] for name in names})
            there.append(found)
            opened |= dict(zip(names, parts, strict=True))
        shared = {keys[name]: opened[name] for found in ray.get(there) for name in found}
        return shared | super().share(config, {name: key for name, key in keys.items() if key not in shared})

    def _of(self, config: dict[str, Any]) -> Told:
        """What is told of a configuration, which those that differ by their seeds share."""
        if _seedless(config) not in self._told:
            self._tell_of([config])
        return self._told[_seedless(config)]

    def _tell_of(self, configs: Iterable[dict[str, Any]]) -> None:
        """Have keys and provenance of configurations told."""
        distinct = {_seedless(config): config for config in configs}
        told = self._ask(_describe, list(distinct.values()))
        self._told |= dict.fromkeys(distinct, (None, None)) if told is None else zip(distinct, told, strict=True)

    def _ask(
        self, what: Callable[[list[dict[str, Any]], Rerank | None], Said], configs: list[dict[str, Any]]
    ) -> Said | None:
        """What a task on this machine says of configurations; None where it fails, and this process is to see why."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.join()
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        task: Any = ray.remote(what).options(num_cpus=0, scheduling_strategy=here)
        try:
            said: Said = ray.get(task.remote(configs, self.rerank))
        except ray.exceptions.RayError:
            return None
        return said

    def _say(self, line: str) -> None:
        """Tell people what is made: once, though several processes may open the same."""
        if line not in self._said:
            self._said.add(line)
            self._tell(line)

    def _make_all(self, jobs: Mapping[str, Job]) -> bool:
        """Run a task for each job, as many at once as there is room for.

        Returns:
            Whether this process sees what they have made; else it is to make everything itself.

        Raises:
            BadInput: what a task found wrong with the user's files.
        """
        if not jobs:
            return True
        import ray
        from ray.exceptions import RayTaskError

        self.join()
        task: Any = ray.remote(num_cpus=1, max_retries=MAX_FAILURES_WITHOUT_PROGRESS)(_make)
        waiting, running = dict(jobs), dict[Any, str]()
        try:
            while waiting or running:
                open_ = {*waiting, *running.values()}
                for key, job in list(waiting.items()):
                    if not job.needs & open_:
                        said = said_of(job.config, job.name)
                        self._say(said)
                        running[task.options(name=said).remote(job.config, job.name, self.rerank)] = key
                        del waiting[key]
                (ref,), _ = ray.wait(list(running))
                job = jobs[key := running.pop(ref)]
                try:
                    notes = ray.get(ref)
                except RayTaskError as error:
                    cause = _cause(error)
                    if not isinstance(cause, BadInput):
                        raise
                    if sum(node["Alive"] for node in ray.nodes()) > 1:
                        return False  # that machine may lack a file, which is here
                    raise cause from None
                if notes is None:
                    self._say(f"another command is {said_of(job.config, job.name)}")
                    waiting[key] = job
                    time.sleep(PAUSE)
                    continue
                for line in notes:
                    self._say(line)
                if not self._sees(job, key):
                    return False
        finally:
            for ref in running:
                ray.cancel(ref, force=True)  # at once: files are written whole, and locks end with their process
        return True

    def _sees(self, job: Job, key: str) -> bool:
        """Whether what a task has made is here as well."""
        if job.name is None:
            return self._collections.are_cached(job.config, anew=True)
        place = self.place(job.config, key)
        with suppress(OSError):
            os.listdir(place.parent)  # has a network's disk look again
        return at_hand(place)


def needed(config: Mapping[str, Any], name: str) -> list[str]:
    """The parts that a part is made of."""
    kind, _, which = name.partition(":")
    others = {
        "base": [],
        "tokens": [],
        "similarity": ["base", f"function:{which}"],
        "teacher": ["base", *(f"function:{each}" for each in config["function"])],
    }
    if kind == "candidates":
        return ["base", nearest_part(dict(config))]
    return others.get(kind, ["base"])


def _make(config: dict[str, Any], name: str | None, rerank: Rerank | None) -> list[str] | None:
    """What a task does.

    Returns:
        What it has to tell; None where another command is making the same.
    """
    notes: list[str] = []
    artifacts = Artifacts(notes.append if name is None else lambda line: None, rerank, partial(file_lock, wait=False))
    try:
        if name is None:
            artifacts.open_all(config)
        else:
            artifacts.collection(config)  # which has been told of
            artifacts.note = notes.append
            artifacts.part(config, name)
    except Busy:
        return None
    return notes


def _describe(configs: list[dict[str, Any]], rerank: Rerank | None) -> list[Told]:
    """Keys and provenance of configurations."""
    artifacts = Artifacts(rerank=rerank)

    def told(say: Callable[[dict[str, Any]], dict[str, str]], config: dict[str, Any]) -> dict[str, str] | None:
        with suppress(BadInput):  # as where an agent is still to be learned; who needs it is told then
            return say(config)
        return None

    return [(told(artifacts.keys, config), told(artifacts.provenance, config)) for config in configs]


def _check(configs: list[dict[str, Any]], rerank: Rerank | None) -> bool:
    """See that options of runs are good."""
    Artifacts().check(configs)
    return True


def _seedless(config: dict[str, Any]) -> str:
    """Names all of a configuration that its parts could depend on."""
    return digest(config | {"seed": None})


def _open(places: Mapping[str, Path]) -> Iterator[Part | list[str] | None]:
    """Parts for the object store, one after the other; then the names of those that this machine has."""
    there = []
    for name, place in places.items():
        part = cached_part(name, place)
        if part is not None:
            there.append(name)
        yield part
    yield there


def _cause(error: BaseException) -> BaseException:
    """What a task has raised."""
    from ray.exceptions import RayTaskError

    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error
