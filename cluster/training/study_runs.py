"""Describes the runs of a study as tasks, and trains one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.trainer_option import trains_elsewhere
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.resources import Resources, at_once, check_demand, workers_bundles
from pyrite.cluster.executors.task import WITHIN, Context, Task
from pyrite.cluster.index.demand import check_room, encoder_bundles, live_functions, reserved
from pyrite.cluster.lazy import ray
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.artifacts import Artifacts, OpenedParts
from pyrite.cluster.runs.outcome import Outcome, mean_best
from pyrite.cluster.training.trainer_runs import run_trainer
from pyrite.ranking.lazy import torch

if TYPE_CHECKING:
    from pyrite.cluster.runs.execute import Leave
    from pyrite.cluster.runs.progress import Progress


def task_of(planned: Planned, artifacts: Artifacts, storage: Storage) -> Task:
    """Return the task of a run."""
    config, built_from = planned.config, artifacts.provenance(planned.config)
    arguments = {"name": planned.name, "config": config, "storage": storage}
    arguments |= {"keys": artifacts.keys(config), "made_of": built_from}
    resources = replace(
        Resources.of_run(config["resources"]),
        beside=tuple(reserved(config)),
        later=later_bundles(config),
        strategy=config["resources"]["placement"].upper(),
    )
    facts = {"parameters": planned.parameters, "overrides": shlex.join(planned.overrides), "made_of": built_from}
    return Task(planned.name, "pyrite.cluster.training.study_runs:study_run", arguments, resources, facts=facts)


def later_bundles(config: Mapping[str, Any]) -> tuple[Mapping[str, float], ...]:
    """Return what the workers and encoders of a run take that Ray Train places; none if there is one worker."""
    options = config["resources"]
    if options["workers"] == 1:
        return ()
    workers = workers_bundles(options, options["least"] or options["workers"])
    return (*workers, *encoder_bundles(config))


def study_run(
    name: str,
    config: dict[str, Any],
    keys: Mapping[str, str],
    made_of: Mapping[str, str],
    storage: Storage,
    opened: OpenedParts,
    context: Context,
) -> dict[str, Any]:
    """Train and evaluate one ranker: the body of a run's task.

    Returns:
        best: the highest validation, averaged over folds; numbers: the mean of each measure; notes: messages.
    """
    from pyrite.cluster.runs.execute import execute_run

    best = 0.0
    notes: list[str] = []

    def report(progress: Progress) -> None:
        nonlocal best
        if progress.batches:  # not after a validation
            of_fold = (progress.epoch + progress.batch / progress.batches) / progress.max_epochs
            context.report({WITHIN: (progress.fold + of_fold) / progress.folds})
            return
        best = max(best, progress.validation)
        context.report(report_of(progress) | {"best": best, "notes": list(notes)})
        notes.clear()

    parts = opened.of(config, keys, lambda line: context.report({"notes": [line]}))
    start = launcher(config, name, notes.append, context.leave)
    outcome = execute_run(name, config, made_of, parts, storage, report, start)
    return {"best": mean_best(outcome), "numbers": outcome.means(), "notes": notes, "learned": outcome.learned}


def report_of(progress: Progress) -> dict[str, Any]:
    """Return the progress of a run as a `Watch` receives it."""
    shown = {key: getattr(progress, key) for key in ("fold", "epoch", "max_epochs", "validation")}
    return shown | {"numbers": {"loss": progress.loss, "validation": progress.validation}}


def launcher(
    config: dict[str, Any],
    name: str = "run",
    note: Callable[[str], None] = lambda line: None,
    leave: Leave | None = None,
) -> Callable[..., Outcome]:
    """Return what executes a run: `pyrite.cluster.runs.execute.run`, with the index actors and workers that the run
    needs.

    Args:
        note: called with lines about actors that start or are lost.
        leave: see `pyrite.cluster.runs.execute.Leave`. Workers always leave nodes that will be taken away.
    """
    if trains_elsewhere(config):
        return partial(run_trainer, name=name)
    if config["resources"]["workers"] > 1:
        from pyrite.cluster.training.workers import run_on_workers

        return partial(run_on_workers, name=name, note=note)
    from pyrite.cluster.runs.execute import run, stay
    from pyrite.cluster.training.attach import attach_run

    return partial(run, attach=partial(attach_run, config=config, name=name, note=note), leave=leave or stay)


def warm_up() -> None:
    """Import what training needs, and what torch imports at the first optimizer, a second's work."""

    import pyrite.cluster.training.attach  # noqa: F401

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def capacity_of(
    configs: Sequence[Mapping[str, Any]], address: str | None
) -> Callable[[Sequence[Mapping[str, float]]], int | None]:
    """Return what computes how many runs a cluster has room for, given the resources of its nodes.

    It returns None if no run has several workers: Ray Tune can count the others itself. If machines may be added, it
    counts one run more, which waits where an autoscaler sees it; but none if runs have encoders, whose place the
    workers would take.
    """
    with_workers = [config for config in configs if config["resources"]["workers"] > 1]
    demands = [[*workers_bundles(config["resources"]), *encoder_bundles(config)] for config in with_workers]
    waiting = int(is_cluster(address) and not any(map(live_functions, with_workers)))

    def capacity(nodes: Sequence[Mapping[str, float]]) -> int | None:
        count = at_once(demands, nodes)
        return count and count + waiting

    return capacity


def check_resources(configs: Sequence[Mapping[str, Any]], address: str | None) -> None:
    """Raise if a run requests more than a local Ray has. It never grows, and the run would wait for ever."""
    if is_cluster(address):
        return

    resources = ray.cluster_resources()
    for config in configs:
        check_demand(config["resources"], resources)
        check_room(config, resources)
