"""Executes one run on several workers of Ray Train, from the configuration to the outcome."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import get_current_placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pyrite.cluster.executors.lost_process import NOTICE, leave
from pyrite.cluster.executors.ray_tasks import opened
from pyrite.cluster.limits import POLL_S
from pyrite.cluster.runs.execute import OnProgress, run
from pyrite.cluster.runs.outcome import Outcome
from pyrite.cluster.runs.progress import Progress
from pyrite.cluster.runs.states import StateStore
from pyrite.cluster.telemetry.metrics import unique
from pyrite.cluster.training.attach import attach_run
from pyrite.cluster.training.coordinator import WorkerCoordinator
from pyrite.ranking.checkpoint import from_bytes, to_bytes


def run_on_workers(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_progress: OnProgress = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
    name: str = "run",
    note: Callable[[str], None] = lambda line: None,
    watch: Mapping[str, str] | None = None,
) -> Outcome:
    """Execute a run on `resources.workers` workers. Without dropout, its numbers are those of one process, to rounding.

    The workers' CPUs and GPUs form a placement group. A state that one number of workers has saved can be loaded by any
    other number. If a worker is lost, all start again from the last state: as many as before or, with
    `resources.least`, as many as the cluster has left. If a worker's node will be taken away, the first worker saves
    the state and ends, and Ray Train starts all of them elsewhere.

    Args:
        parts: its parts, or references to them in the object store.
        on_progress: see `pyrite.cluster.runs.execute.run`. Epochs are reported again after a loss.
        store: keeps the state between interrupts. The first worker writes it and all read it, so all nodes must reach
            it. Without a store the state lasts as long as this call.

    Raises:
        BadInput: if a worker raised it.
        ray.train.TrainingFailedError: if the workers failed too often.
    """
    shared = {name: part if isinstance(part, ray.ObjectRef) else ray.put(part) for name, part in parts.items()}

    def on_report(report: Progress | str) -> None:
        if isinstance(report, str):
            note(report)
        else:
            on_progress(report)

    work = partial(_train_share, config, shared, store, save_every, name, watch)
    return Outcome(**on_workers(work, config["resources"], name, on_report))


def on_workers(
    work: Callable[[Any, bool], dict[str, Any]],
    resources: dict[str, Any],
    name: str,
    on_report: Callable[[Any], None] = lambda report: None,
) -> dict[str, Any]:
    """Do the same work in every worker, all of them in one process group, and return the result of the first.

    Args:
        work: called in each worker with the coordinator, and whether this is the first worker.
        on_report: called with what the work reports to the coordinator.
    """
    # On this node, which the caller needs anyway, and outside a trial's placement group, which has no room for it.
    affinity = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    called = unique(f"coordinator:{name}")
    options = {"name": called, "num_cpus": 0, "max_concurrency": 16, "scheduling_strategy": affinity}
    coordinator: Any = ray.remote(WorkerCoordinator).options(**options).remote()
    # In a separate object, so that only the workers unpack what only they need.
    job = ray.put(work)
    ending = coordinator.run_workers.remote(partial(_perform, [job], coordinator), resources)
    try:
        outcome: bytes | None = None
        while outcome is None:
            with contextlib.suppress(GetTimeoutError):
                outcome = ray.get(ending, timeout=POLL_S)
            for report in ray.get(coordinator.drain.remote()):
                on_report(report)
        return from_bytes(outcome)
    except RayTaskError as error:
        raise error.cause from None
    finally:
        groups = []
        with contextlib.suppress(RayError):
            groups = ray.get(coordinator.placement_groups.remote())
        ray.kill(coordinator)  # and with it everything that it has started
        # Except the placement groups: if workers did not end in order, Ray Train's cleaner needs the dashboard to find
        # them.
        for group in groups:
            remove_placement_group(group)


def _perform(job: list[ray.ObjectRef], coordinator: Any) -> None:
    """Do the work in one worker. The first hands the coordinator the placement group of all, and its result."""
    first = ray.train.get_context().get_world_rank() == 0
    if first:
        ray.get(coordinator.add_placement_group.remote(get_current_placement_group()))
    result = ray.get(job[0])(coordinator, first)
    if first:
        ray.get(coordinator.finish.remote(to_bytes(result)))


def _train_share(
    config: dict[str, Any],
    shared: dict[str, ray.ObjectRef],
    store: StateStore | None,
    save_every: float,
    name: str,
    watch: Mapping[str, str] | None,
    coordinator: Any,
    first: bool,
) -> dict[str, Any]:
    """Execute one worker's share of a run, and return the fields of its outcome."""
    parts = opened(shared)
    store = store or cast(StateStore, _InCoordinator(coordinator))
    attach = partial(attach_run, config=config, name=name, note=lambda line: None)
    if not first:
        return vars(run(config, parts, store=store, save_every=math.inf, attach=attach))

    def report(report: Progress | str) -> None:
        ray.get(coordinator.report.remote(report))

    def nodes() -> set[str]:
        return set(placement_group_table(get_current_placement_group())["bundles_to_node_id"].values())

    def leave_together(save: Callable[[], None]) -> None:
        def save_and_note() -> None:
            save()
            report(f"a worker's machine {NOTICE}; the state is saved, and all workers continue from it elsewhere")

        leave(save_and_note, nodes)

    attach = partial(attach, note=report)
    return vars(run(config, parts, report, store, save_every, attach, watch, leave_together))


class _InCoordinator:
    """A state store in the memory of the coordinator, which has its methods."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if not hasattr(WorkerCoordinator, method):
            raise AttributeError(method)
        return lambda *arguments: ray.get(getattr(self._coordinator, method).remote(*arguments))
