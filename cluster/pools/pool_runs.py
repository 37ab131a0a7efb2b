"""Describes the simulations of a pooling study as tasks, and runs one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.executors.resources import Resources
from cluster.executors.task import Context, Task
from cluster.output.storage import Storage
from cluster.pools.trial import Trial, execute_trial
from pooling.pool import Pool


def task_of(trial: Trial, storage: Storage, options: Mapping[str, Any]) -> Task:
    """Return the task of a trial, of a study in a folder with the options of conf/pool.yaml."""
    facts = {"parameters": {"pool": trial.pool, "method": trial.label}}
    arguments = {"trial": trial, "storage": storage}
    return Task(trial.name, "cluster.pools.pool_runs:pool_run", arguments, resources_of(options), facts=facts)


def resources_of(options: Mapping[str, Any]) -> Resources:
    """Return what a trial takes of a machine."""
    return Resources.of({**options, "gpu": 0})


class StoredPools(dict[str, Any]):
    """References to pools in Ray's object store, by name. A pool is read without a copy when it is looked up."""

    def __getitem__(self, name: str) -> Pool:
        import ray

        pool: Pool = ray.get(super().__getitem__(name))
        return pool


def pool_run(trial: Trial, storage: Storage, pools: Mapping[str, Pool], context: Context) -> dict[str, Any]:
    """Simulate one method over one pool: the body of a trial's task.

    Args:
        storage: the study's folder.
        context: receives the number of seeds that are done as `epoch`, and the area of the last as `validation`.

    Returns:
        best: the mean area; numbers: the mean of each figure.
    """
    seeds = trial.options["seeds"]
    figures: list[dict[str, float]] = []

    def means() -> dict[str, float]:
        return {key: sum(numbers[key] for numbers in figures) / len(figures) for key in figures[0]}

    def report(done: int, numbers: dict[str, float]) -> None:
        figures.append(numbers)
        shown = {"epoch": done, "max_epochs": seeds, "validation": numbers["area"], "best": means()["area"]}
        context.report(shown | {"numbers": numbers})

    execute_trial(trial, pools[trial.pool], storage, report)
    return {"best": means()["area"], "numbers": {f"mean/{key}": mean for key, mean in means().items()}}
