"""Executes one run on several workers, from the configuration to the outcome."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import get_current_placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.executors.drain import NOTICE, leave
from cluster.runs.execute import run
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Progress
from cluster.runs.states import ShardStore, StateStore
from cluster.telemetry.actor_names import unique
from cluster.training.coordinator import WorkerCoordinator
from ranking.checkpoint import from_bytes, to_bytes


def run_on_workers(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_epoch: Callable[[Progress], None] = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
    name: str = "run",
    note: Callable[[str], None] = lambda line: None,
    watch: Mapping[str, str] | None = None,
    on_batch: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Run by the workers that `resources` asks for; without dropout, the result differs from one process by rounding.

    The workers' CPUs and GPUs are a placement group of their own. A state that so many workers have kept is good for
    any other number of them. Where a worker is lost, all start again from the last state: as many as before, or, with
    `resources.least`, as many as the cluster has left. Where a worker's machine is to be taken away, the first
    keeps the state at once and ends, and Ray Train starts all of them elsewhere.

    Args:
        config: a composed configuration.
        parts: its parts, or references to them in the object store.
        on_epoch: told the progress; epochs are told again where workers had to go back. What it raises ends them.
        store: keeps the state between interrupts, written by the first worker and read by all, so that it must be
            reachable from all nodes. Without one the state lasts as long as this call.
        save_every: seconds between two states that are kept.
        name: of the run, for what it starts on the cluster.
        note: told what it starts there, and loses.
        watch: tags of its metrics, which the first worker tells; None: it tells none.
        on_batch: told the progress between two validations.

    Raises:
        BadInput: where a worker has met bad input.
        ray.train.TrainingFailedError: where the workers failed too often.
    """
    shared = {name: part if isinstance(part, ray.ObjectRef) else ray.put(part) for name, part in parts.items()}

    def work(coordinator: Any) -> Callable[[], None]:
        return partial(_work, config, shared, coordinator, store, save_every, name, watch)

    def hear(told: dict[str, Any] | str) -> None:
        if isinstance(told, str):
            note(told)
        else:
            (on_batch if told["batches"] else on_epoch)(Progress(**told))

    return Outcome(**from_bytes(on_workers(work, config["resources"], name, hear)))


def on_workers(
    work: Callable[[Any], Callable[[], None]],
    asked: dict[str, Any],
    name: str,
    hear: Callable[[dict[str, Any] | str], None] = lambda told: None,
) -> bytes:
    """Let every worker do the same work, all of them in one process group.

    Args:
        work: given the coordinator, to which the first worker says what comes of it (`WorkerCoordinator.finish`), what
            each of them does.
        asked: `resources` of what they do.
        name: for what is started on the cluster.
        hear: told what the first worker reports.

    Returns:
        What comes of it.

    Raises:
        BadInput: where a worker has met bad input.
        ray.train.TrainingFailedError: where the workers failed too often.
    """
    # On this node, which the caller needs anyway, and outside a trial's placement group, which has no room for it.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    called = unique(f"coordinator:{name}")
    options = {"name": called, "num_cpus": 0, "max_concurrency": 16, "scheduling_strategy": here}
    coordinator: Any = ray.remote(WorkerCoordinator).options(**options).remote()
    # Inside an object of its own, so that only the workers unpack what they alone need.
    job = ray.put(work(coordinator))
    ending = coordinator.run_workers.remote(partial(_perform, [job]), asked)
    try:
        outcome: bytes | None = None
        while outcome is None:
            with contextlib.suppress(GetTimeoutError):
                outcome = ray.get(ending, timeout=0.5)
            for told in ray.get(coordinator.drain.remote()):
                hear(told)
        return outcome
    except RayTaskError as error:
        raise error.cause from None
    finally:
        places = []
        with contextlib.suppress(RayError):
            places = ray.get(coordinator.placement_groups.remote())
        ray.kill(coordinator)  # and with it all that it has started
        # But for their placement groups: where they were not ended in order, Ray Train's cleaner looks for the dead
        # with the dashboard's help, and without a dashboard never finds them.
        for place in places:
            remove_placement_group(place)


def _perform(job: list[ray.ObjectRef]) -> None:
    ray.get(job[0])()


def _work(
    config: dict[str, Any],
    shared: dict[str, ray.ObjectRef],
    coordinator: Any,
    store: StateStore | None,
    save_every: float,
    name: str,
    watch: Mapping[str, str] | None,
) -> None:
    """What each worker does: the run, of which its rows are its own."""
    from cluster.training.attach import attached

    first = ray.train.get_context().get_world_rank() == 0
    parts = dict(zip(shared, ray.get(list(shared.values())), strict=True))
    store = store or _InCoordinator(coordinator)
    if not first:
        if config["resources"]["shard"]:
            run(config, parts, store=store, save_every=save_every, attach=attached(config, name))
        else:
            run(config, parts, store=_ReadOnly(store), save_every=math.inf, attach=attached(config, name))
        return

    def tell(progress: Progress) -> None:
        ray.get(coordinator.report.remote(asdict(progress)))

    def note(line: str) -> None:
        ray.get(coordinator.report.remote(line))

    place = get_current_placement_group()
    ray.get(coordinator.add_placement_group.remote(place))

    def machines() -> set[str]:
        return set(placement_group_table(place)["bundles_to_node_id"].values())

    def leave_together(keep: Callable[[], None]) -> None:
        def keep_and_tell() -> None:
            if config["resources"]["shard"]:  # which all would have to keep together, and some may be a step ahead
                note(f"a worker's machine {NOTICE}; all workers go on from the last state elsewhere")
                return
            keep()
            note(f"a worker's machine {NOTICE}; the state is kept, and all workers go on from it elsewhere")

        leave(keep_and_tell, machines)

    start = partial(run, watch=watch, on_batch=tell, leave=leave_together)
    outcome = start(config, parts, tell, store, save_every, attached(config, name, note))
    ray.get(coordinator.finish.remote(to_bytes(vars(outcome))))


class _InCoordinator:
    """A `StateStore` in the coordinator's memory."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    def load(self) -> bytes | None:
        return ray.get(self._coordinator.load.remote())

    def save(self, state: bytes) -> None:
        ray.get(self._coordinator.save.remote(state))

    def load_shard(self, name: str) -> bytes | None:
        return ray.get(self._coordinator.load_shard.remote(name))

    def save_shard(self, name: str, rows: bytes) -> None:
        ray.get(self._coordinator.save_shard.remote(name, rows))

    def drop_shards(self, but: Collection[str]) -> None:
        ray.get(self._coordinator.drop_shards.remote(list(but)))


class _ReadOnly:
    """What all workers but the first see of the state."""

    def __init__(self, store: StateStore) -> None:
        self.load, self._store = store.load, store

    def save(self, state: bytes) -> None:
        pass

    def load_shard(self, name: str) -> bytes | None:
        return self._store.load_shard(name) if isinstance(self._store, ShardStore) else None

    def save_shard(self, name: str, rows: bytes) -> None:
        pass

    def drop_shards(self, but: Collection[str]) -> None:
        pass
