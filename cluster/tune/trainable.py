"""Runs the runs of a study on Ray Tune: this is where a study becomes trials.

`plan.study.StudyPlan.runs` has named the runs, and `commands.study` has left out those that are finished. `run_on_tune`
puts each part that they share into Ray's object store once, as `runs.artifacts` makes it or finds it in the cache, and
hands Tune a source of runs. Each becomes a trial, whose process runs `trainable`: it takes the collection and the other
parts from the object store, where it reads them without a copy, and leaves its result in the study's folder.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from rich.console import Console

from cluster.index.attach import check_room, live_functions, reserved
from cluster.index.attach import demand as of_encoders
from cluster.output.storage import Storage
from cluster.plan.resources import at_once, check_demand, demand, own_bundle, strategy
from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.capacity import Capacity
from cluster.tune.decided_runs import DecidedRuns
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.optuna_runs import OptunaRuns
from cluster.tune.run_source import RunSource
from cluster.tune.runner import run_trials, trial_body
from cluster.tune.search_scheduler import SearchScheduler
from cluster.tune.study_run import described, study_run
from cluster.tune.time_budget import TimeBudget

if TYPE_CHECKING:
    from cluster.plan.study import StudyPlan


def trainable(trial: dict[str, Any], shared: dict[str, ray.ObjectRef], storage: Storage) -> None:
    """What a trial's process does: one run, its parts read from the object store without a copy.

    Args:
        trial: `run`, with name, config (as JSON), the keys of its parts and all that it is made of.
        shared: parts by key. One that is not there, because the search drew an option of it, is taken from
            the cache or made here.
        storage: where the result goes.
    """
    run = trial["run"]
    config = json.loads(run["config"])
    artifacts = Artifacts()
    # A run with workers of its own hands the references on to them.
    read = ray.get if config["resources"]["workers"] == 1 else lambda reference: reference
    parts = {
        name: read(shared[key]) if key in shared else artifacts.part(config, name) for name, key in run["parts"].items()
    }
    study_run(run, parts, storage, tune.report)


def run_on_tune(
    study: StudyPlan,
    waiting: Sequence[Planned],
    proposals: OptunaRuns | DecidedRuns,
    ready: int,
    artifacts: Artifacts,
    budget: TimeBudget,
    console: Console,
    tracking: Tracking | None = None,
    scheduler: SearchScheduler | None = None,
) -> dict[str, str]:
    """Run what is not finished.

    Args:
        study: options and storage.
        waiting: the runs that are known and not finished.
        proposals: those that are proposed while the study runs.
        ready: how many of the study's runs are finished.
        artifacts: makes the parts.
        budget: how long runs may begin.
        console: shows the live table.
        tracking: of the study.
        scheduler: of a search.

    Returns:
        The error of each run that failed for good, by its name.

    Raises:
        BadInput: where a run asks for more than a local Ray has.
    """
    examples = proposals.examples()
    _check_resources(study, [*waiting, *examples])
    shared: dict[str, ray.ObjectRef] = {}

    def share(planned: Planned) -> dict[str, Any]:
        run = described(planned, artifacts)
        for name, key in run["parts"].items():
            if key not in shared:
                shared[key] = ray.put(artifacts.part(planned.config, name))
        return run

    batches: list[RunSource] = []
    if waiting:
        batches.append(KnownRuns([share(planned) for planned in waiting]))
    if proposals.total > proposals.finished:
        for planned in examples:
            share(planned)
        proposals.describe = lambda planned: described(planned, artifacts)
        batches.append(proposals)
    before = proposals.finished
    total = ready + len(waiting) + proposals.total - before
    measure = [*waiting, *examples][0].config["validation"]["measure"]
    capacity = _capacity(study, [*waiting, *examples])
    errors: dict[str, str] = {}
    with LiveTable(console, total, ready, measure) as table:
        proposals.on_total = lambda count: setattr(table, "total", ready + len(waiting) + count - before)
        for source in batches:
            body = trial_body(
                "StudyRun", trainable, _resources, study.options["retries"], shared=shared, storage=study.storage
            )
            given = budget.limit(source, scheduler)
            errors |= run_trials(body, given, study.storage, study.options, table, tracking, capacity, scheduler)
    return errors


def _resources(trial: dict[str, Any]) -> tune.PlacementGroupFactory:
    """What a trial takes of the cluster."""
    config = json.loads(trial["run"]["config"])
    asked = config["resources"]
    return tune.PlacementGroupFactory([own_bundle(asked), *reserved(config)], strategy=strategy(asked))


def _capacity(study: StudyPlan, runs: Sequence[Planned]) -> Capacity:
    """How many of these runs a cluster has room for.

    Where machines may be added, one more waits for an autoscaler to see; but none where runs have encoders, whose
    place its workers would take.
    """
    shared = [planned.config for planned in runs if planned.config["resources"]["workers"] > 1]
    wanted = [Counter(demand(config["resources"])) + Counter(of_encoders(config)) for config in shared]
    waiting = int(_may_grow(study) and not any(map(live_functions, shared)))

    def capacity(there: Mapping[str, float]) -> int | None:
        count = at_once(wanted, there)
        return count and count + waiting

    return capacity


def _may_grow(study: StudyPlan) -> bool:
    """Whether this is a cluster, to which machines may be added, and no local Ray."""
    return bool(study.options["address"] or os.environ.get("RAY_ADDRESS"))


def _check_resources(study: StudyPlan, runs: Sequence[Planned]) -> None:
    """A local Ray never grows: a run that asks for more than it has would wait for ever."""
    if _may_grow(study):
        return
    there = ray.cluster_resources()
    for planned in runs:
        check_demand(planned.config["resources"], there)
        check_room(planned.config, there)
