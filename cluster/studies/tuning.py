"""Spreading a study's runs with Ray Tune."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.tune.search import Searcher
from rich.console import Console

from cluster.live_indexes import check_room, reserved
from cluster.parallel.demand import at_once, check_demand, own_bundle
from cluster.preparation import Preparation
from cluster.run import Progress, mean_best
from cluster.storage import Storage
from cluster.studies.live import LiveTable
from cluster.studies.optuna_runs import OptunaRuns
from cluster.studies.outcomes import conduct_run
from cluster.studies.sweep import Planned
from cluster.studies.trials import run_trials

if TYPE_CHECKING:
    from cluster.studies.ranking import Study


def trainable(trial: dict[str, Any], shared: dict[str, ray.ObjectRef], storage: Storage) -> None:
    """What a trial's process does: one run, its parts read from the object store without a copy.

    Args:
        trial: `run`, with name, config and the keys of its parts.
        shared: parts by key. One that is not there, because the search drew an option of it, is taken from
            the cache or made here.
        storage: where the result goes.
    """
    run = trial["run"]
    preparation = Preparation()
    # A run with workers of its own hands the references on to them.
    read = ray.get if run["config"]["resources"]["workers"] == 1 else lambda reference: reference
    parts = {
        name: read(shared[key]) if key in shared else preparation.part(run["config"], name)
        for name, key in run["parts"].items()
    }
    best = 0.0

    def tell(progress: Progress) -> None:
        nonlocal best
        best = max(best, progress.validation)
        shown = {"epoch": progress.epoch, "max_epochs": progress.max_epochs, "validation": progress.validation}
        tune.report(shown | {"best": best})

    outcome = conduct_run(run["name"], run["config"], run["parts"], parts, storage, tell)
    tune.report({"best": mean_best(outcome)})


def spread(
    study: Study,
    waiting: Sequence[Planned],
    proposals: OptunaRuns,
    ready: int,
    preparation: Preparation,
    console: Console,
) -> dict[str, str]:
    """Run what is not finished.

    Args:
        study: options and storage.
        waiting: the runs that are known and not finished.
        proposals: those that Optuna proposes while the study runs.
        ready: how many of the study's runs are finished.
        preparation: makes the parts.
        console: shows the live table.

    Returns:
        The error of each run that failed for good, by its name.

    Raises:
        BadInput: where a run asks for more than a local Ray has.
    """
    examples = proposals.examples()
    _check_resources(study, [*waiting, *examples])
    shared: dict[str, ray.ObjectRef] = {}

    def describe(planned: Planned) -> dict[str, Any]:
        return {"name": planned.name, "config": planned.config, "parts": preparation.keys(planned.config)}

    def share(planned: Planned) -> dict[str, Any]:
        described = describe(planned)
        for name, key in described["parts"].items():
            if key not in shared:
                shared[key] = ray.put(preparation.part(planned.config, name))
        return described

    batches: list[tuple[Searcher | None, dict[str, Any], int]] = []
    if waiting:
        batches.append((None, {"run": tune.grid_search([share(planned) for planned in waiting])}, 1))
    if proposals.total > proposals.finished:
        for planned in examples:
            share(planned)
        proposals.describe = describe
        batches.append((proposals, {}, proposals.total - proposals.finished))
    total = ready + len(waiting) + proposals.total - proposals.finished
    measure = [*waiting, *examples][0].config["validation"]["measure"]
    asked = [planned.config["resources"] for planned in [*waiting, *examples]]
    options = dict(study.options)
    options["concurrent"] = options["concurrent"] or at_once(asked, ray.cluster_resources())
    errors: dict[str, str] = {}
    with LiveTable(console, total, ready, measure) as table:
        for search, space, samples in batches:
            body = tune.with_resources(
                tune.with_parameters(trainable, shared=shared, storage=study.storage), _resources
            )
            errors |= run_trials(body, space, study.storage, options, table, search, samples)
    return errors


def _resources(trial: dict[str, Any]) -> tune.PlacementGroupFactory:
    """What a trial takes of the cluster."""
    config = trial["run"]["config"]
    return tune.PlacementGroupFactory([own_bundle(config["resources"]), *reserved(config)])


def _check_resources(study: Study, runs: Sequence[Planned]) -> None:
    """A local Ray never grows: a run that asks for more than it has would wait for ever."""
    if study.options["address"] or os.environ.get("RAY_ADDRESS"):
        return
    there = ray.cluster_resources()
    for planned in runs:
        check_demand(planned.config["resources"], there)
        check_room(planned.config, there)
