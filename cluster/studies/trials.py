"""Trials of Ray Tune, as every study of ours runs them."""

from __future__ import annotations

import itertools
import os
from typing import Any

from ray import tune
from ray.tune import FailureConfig, RunConfig, TuneConfig
from ray.tune.search import Searcher

from cluster.metrics.training import study_of
from cluster.metrics.trials import TrialStates
from cluster.storage import Storage
from cluster.studies.live import LiveTable

_NUMBERS = itertools.count()


def run_trials(
    trainable: Any,
    space: dict[str, Any],
    storage: Storage,
    options: dict[str, Any],
    table: LiveTable,
    search: Searcher | None = None,
    samples: int = 1,
) -> dict[str, str]:
    """Run trials until each has ended.

    Args:
        trainable: what a trial does, with its resources.
        space: of the trials; each has `run`, a mapping with a `name`.
        storage: the study's folder, in which Tune keeps its own.
        options: `concurrent` and `retries` of the study.
        table: told what happens, and counted by in the metrics.
        search: proposes trials; None runs the space.
        samples: trials that it proposes.

    Returns:
        The error of each trial that failed for good, by its name.
    """
    # Tune's own files of each result (CSV, JSON) cost more than a short epoch, and ours say more; its
    # handler of Ctrl-C would end the process instead of letting us say how to go on.
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    name = f"{next(_NUMBERS)}-{os.getpid()}"
    tuner = tune.Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(
            search_alg=search,
            num_samples=samples,
            max_concurrent_trials=options["concurrent"],
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.config["run"]["name"],
            trial_dirname_creator=lambda trial: trial.config["run"]["name"],
        ),
        run_config=RunConfig(
            name=f"tune/{name}" if storage.local else f"tune-{name}",
            storage_path=storage.path("").rstrip("/") if storage.local else storage.place,
            failure_config=FailureConfig(max_failures=options["retries"]),
            callbacks=[table, TrialStates(table, study_of(storage.place))],
            verbose=0,
        ),
    )
    results = tuner.fit()
    every = [results[place] for place in range(len(results))]
    return {result.config["run"]["name"]: _reason(result.error) for result in every if result.error and result.config}


def _reason(error: Exception) -> str:
    """The last line of a trial's traceback: what went wrong, without where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
