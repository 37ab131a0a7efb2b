"""Runs the runs of a study on Ray Tune: this is where a study becomes trials.

`plan.study.StudyPlan.runs` has named the runs, and `commands.study` has left out those that are finished. `run_on_tune`
puts each part that they share into Ray's object store once, as `runs.artifacts` makes it or finds it in the cache, and
hands Tune a source of runs. Each becomes a trial, whose process runs `trainable`: it takes the collection and the other
parts from the object store, where it reads them without a copy, and leaves its result in the study's folder.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray import tune

from cluster.executors.drain import leave
from cluster.executors.resources import at_once, check_demand, demand, may_grow, own_bundle, strategy
from cluster.index.attach import check_room, live_functions, reserved
from cluster.index.attach import demand as of_encoders
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.tune.capacity import Capacity
from cluster.tune.live_table import LiveTable
from cluster.tune.run_source import RunSource
from cluster.tune.runner import run_trials, trial_body
from cluster.tune.study_run import described, study_run
from cluster.tune.study_work import StudyWork

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
    study_run(run, parts, storage, tune.report, leave)


def run_on_tune(work: StudyWork) -> dict[str, str]:
    """Run what is left of a study.

    Args:
        work: what there is to do.

    Returns:
        The error of each run that failed for good, by its name.

    Raises:
        BadInput: where a run asks for more than a local Ray has.
    """
    study, artifacts = work.study, work.artifacts
    _check_resources(study, work.known)
    shared: dict[str, ray.ObjectRef] = {}

    def share(planned: Planned) -> dict[str, Any]:
        run = described(planned, artifacts)
        missing = {name: key for name, key in run["parts"].items() if key not in shared}
        shared.update(artifacts.share(planned.config, missing))
        return run

    if work.proposals.total > work.proposals.finished:
        for planned in work.proposals.examples():
            share(planned)
    capacity = _capacity(study, work.known)

    def run_all(source: RunSource, table: LiveTable) -> dict[str, str]:
        body = trial_body(
            "StudyRun", trainable, _resources, study.options["retries"], shared=shared, storage=study.storage
        )
        return run_trials(body, source, study.storage, study.options, table, work.tracking, capacity, work.scheduler)

    return work.run(share, run_all)


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
    waiting = int(may_grow(study.options["address"]) and not any(map(live_functions, shared)))

    def capacity(there: Mapping[str, float]) -> int | None:
        count = at_once(wanted, there)
        return count and count + waiting

    return capacity


def _check_resources(study: StudyPlan, runs: Sequence[Planned]) -> None:
    """A local Ray never grows: a run that asks for more than it has would wait for ever."""
    if may_grow(study.options["address"]):
        return
    there = ray.cluster_resources()
    for planned in runs:
        check_demand(planned.config["resources"], there)
        check_room(planned.config, there)
