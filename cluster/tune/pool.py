"""Runs the simulations of a pooling study on Ray Tune."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from rich.console import Console

from cluster.executors.resources import bundle, check_bundle
from cluster.output.storage import Storage
from cluster.pools.trial import Trial
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.pool_run import described, pool_run
from cluster.tune.runner import run_trials, trial_body
from pooling.pool import Pool

if TYPE_CHECKING:
    from cluster.plan.pool import PoolPlan


def trainable(config: dict[str, Any], shared: dict[str, ray.ObjectRef], storage: Storage) -> None:
    """What a trial's process does: one method over one pool, which is read from the object store without a copy.

    Args:
        config: `run`, with what makes the trial.
        shared: pools by name.
        storage: where the result goes.
    """
    pool_run(config["run"], ray.get(shared[config["run"]["pool"]]), storage, tune.report)


def placement(config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    """What a method takes of a cluster.

    Args:
        config: of conf/pool.yaml, composed.
    """
    return tune.PlacementGroupFactory([bundle({**config, "gpu": 0})])


def run_on_tune(
    trials: Sequence[Trial],
    pools: Mapping[str, Pool],
    study: PoolPlan,
    ready: int,
    console: Console,
    tracking: Tracking | None = None,
) -> dict[str, str]:
    """Run what is not finished.

    Args:
        trials: to run.
        pools: by name.
        study: options and storage.
        ready: how many trials are finished.
        console: shows the live table.
        tracking: of the study.

    Returns:
        The error of each trial that failed for good, by its name.

    Raises:
        BadInput: where a trial asks for more than a local Ray has.
    """
    if not (study.config["address"] or os.environ.get("RAY_ADDRESS")):
        check_bundle(placement(study.config).bundles[0], ray.cluster_resources(), "a method")
    used = {trial.pool for trial in trials}
    shared = {name: ray.put(pool) for name, pool in pools.items() if name in used}
    asked, retries = placement(study.config), study.config["retries"]
    body = trial_body("PoolRun", trainable, asked, retries, shared=shared, storage=study.storage)
    runs = KnownRuns([described(trial) for trial in trials])
    with LiveTable(console, len(trials) + ready, ready, "area", "seed") as table:
        return run_trials(body, runs, study.storage, study.config, table, tracking)
