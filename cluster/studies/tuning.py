"""Spreading a study's runs with Ray Tune."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.tune import FailureConfig, RunConfig, TuneConfig
from ray.tune.search import Searcher
from rich.console import Console

from cluster.preparation import Preparation
from cluster.run import Progress, mean_best
from cluster.storage import Storage
from cluster.studies.live import LiveTable
from cluster.studies.optuna_runs import OptunaRuns
from cluster.studies.sweep import Planned, Point

if TYPE_CHECKING:
    from cluster.studies.ranking import Study


def trainable(trial: dict[str, Any], shared: dict[str, ray.ObjectRef], storage: Storage) -> None:
    """What a trial's process does: one run, its parts read from the object store without a copy.

    Args:
        trial: `run`, with name, config and the keys of its parts.
        shared: every part by key.
        storage: where the result goes.
    """
    from cluster.studies.ranking import conduct_run

    run = trial["run"]
    parts = dict(zip(run["parts"], ray.get([shared[key] for key in run["parts"].values()]), strict=True))

    best = -math.inf

    def tell(progress: Progress) -> None:
        nonlocal best
        best = max(best, progress.validation)
        shown = {"epoch": progress.epoch, "max_epochs": progress.max_epochs, "validation": progress.validation}
        tune.report(shown | {"best": best})

    outcome = conduct_run(run["name"], run["config"], parts, storage, tell)
    tune.report({"best": mean_best(outcome)})


def spread(
    study: Study, runs: Sequence[Planned], adaptive: Sequence[Point], preparation: Preparation, console: Console
) -> tuple[list[Planned], dict[str, str]]:
    """Run what is not finished.

    Args:
        study: options and storage.
        runs: the runs planned so far.
        adaptive: points whose intervals Optuna draws while the study runs.
        preparation: makes the parts.
        console: shows the live table.

    Returns:
        All the runs that Optuna proposed, and the error of each run that failed for good.
    """
    from cluster.studies.ranking import finished

    # Tune's own files of each result (CSV, JSON) cost more than a short epoch, and ours say more; its
    # handler of Ctrl-C would end the process instead of letting us say how to go on.
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    done = finished(study.storage, runs)
    waiting = [planned for planned in runs if planned.name not in done]
    proposals = OptunaRuns(adaptive, study.options["samples"], study.seeds, study.storage) if adaptive else None
    shared: dict[str, ray.ObjectRef] = {}

    def share(planned: Planned) -> dict[str, Any]:
        keys = preparation.keys(planned.config)
        for name, key in keys.items():
            if key not in shared:
                shared[key] = ray.put(preparation.part(planned.config, name))
        return {"name": planned.name, "config": planned.config, "parts": keys}

    errors: dict[str, str] = {}
    first = (waiting or runs or (proposals.examples() if proposals else []))[0]
    resources = first.config["resources"]
    total = len(runs) + (proposals.total if proposals else 0)
    ready = len(done) + (proposals.finished if proposals else 0)
    batches: list[tuple[Searcher | None, dict[str, Any], int]] = []
    if waiting:
        space = {"run": tune.grid_search([share(planned) for planned in waiting])}
        batches.append((None, space, 1))
    if proposals:
        for planned in proposals.examples():
            share(planned)
        proposals.share = share
        batches.append((proposals, {}, proposals.total - proposals.finished))
    with LiveTable(console, total, ready, first.config["validation"]["measure"]) as table:
        for number, (search, space, samples) in enumerate(batches):
            tuner = tune.Tuner(
                tune.with_resources(
                    tune.with_parameters(trainable, shared=shared, storage=study.storage),
                    {"cpu": resources["cpu"], "gpu": resources["gpu"]},
                ),
                param_space=space,
                tune_config=TuneConfig(
                    search_alg=search,
                    num_samples=samples,
                    max_concurrent_trials=study.options["concurrent"],
                    reuse_actors=True,
                    trial_name_creator=lambda trial: trial.config["run"]["name"],
                    trial_dirname_creator=lambda trial: trial.config["run"]["name"],
                ),
                run_config=RunConfig(
                    name=f"tune/{number}-{os.getpid()}" if study.storage.local else f"tune-{number}-{os.getpid()}",
                    storage_path=study.storage.path("").rstrip("/") if study.storage.local else study.storage.place,
                    failure_config=FailureConfig(max_failures=study.options["retries"]),
                    callbacks=[table],
                    verbose=0,
                ),
            )
            results = tuner.fit()
            for result in (results[place] for place in range(len(results))):
                if result.error and result.config:
                    errors[result.config["run"]["name"]] = _reason(result.error)
    return (proposals.proposed if proposals else []), errors


def _reason(error: Exception) -> str:
    """The last line of a trial's traceback: what went wrong, without where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
