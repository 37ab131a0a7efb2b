"""Learns the agents that a study's policies need before the study runs."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from rich.console import Console

from cluster.executors.drain import leave
from cluster.executors.resources import bundle, strategy
from cluster.output.episodes import LEARNED, numbers, recent, table
from cluster.output.storage import Storage
from cluster.rollouts.environments import Environments
from cluster.rollouts.request import LearnRequest
from cluster.runs.artifacts import Artifacts
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.runner import run_trials, trial_body
from cluster.tune.wanted_agents import FOLDER
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.rollouts.train_agent import LearningProgress


def learn_agents(
    requests: dict[str, LearnRequest],
    storage: Storage,
    options: dict[str, Any],
    artifacts: Artifacts,
    console: Console,
    tracking: Tracking | None = None,
) -> None:
    """Learn agents, each in a trial of its own.

    Args:
        requests: by name.
        storage: the study's folder.
        options: of the study.
        artifacts: makes the parts.
        console: shows the live table.
        tracking: of the study.

    Raises:
        BadInput: where one could not be learned.
    """
    console.print(f"{len(requests)} agent{'s' * (len(requests) > 1)} to learn first")
    shared: dict[str, ray.ObjectRef] = {}
    trials = []
    for name, request in requests.items():
        collection = artifacts.collection(request.config)
        facts = {"collection": collection.name, "fingerprint": collection.fingerprint}
        request.record(facts)
        keys = artifacts.keys(request.config)
        shared |= artifacts.share(request.config, {part: key for part, key in keys.items() if key not in shared})
        run = {"name": name, "config": request.config, "parts": keys, "store": request.store(keys), "facts": facts}
        trials.append(run | {"overrides": shlex.join(request.overrides)})
    measure = next(iter(requests.values())).config["validation"]["measure"]
    with LiveTable(console, len(requests), 0, measure, "episode") as live:
        body = trial_body("StudyAgent", _learn, _resources, options["retries"], shared=shared)
        errors = run_trials(body, KnownRuns(trials), storage, options, live, tracking)
    if errors:
        name, error = next(iter(errors.items()))
        raise BadInput(f"an agent could not be learned ({error})", f"{FOLDER}/{name}", "go on with --resume")


def _resources(trial: dict[str, Any]) -> tune.PlacementGroupFactory:
    asked = trial["run"]["config"]["resources"]
    return tune.PlacementGroupFactory([bundle(asked)], strategy=strategy(asked))


def _learn(trial: dict[str, Any], shared: dict[str, ray.ObjectRef]) -> None:
    """What a trial's process does: learn one agent, its copies stepped in this very process."""
    # RLlib, which a study without agents does not need.
    from cluster.rollouts.train_agent import RolloutBackend, train_agent

    run = trial["run"]
    refs = {name: shared[key] for name, key in run["parts"].items()}
    best = 0.0

    def tell(progress: LearningProgress) -> None:
        nonlocal best
        means = recent(table(progress.rows), LEARNED)
        best = means.get("validation", 0.0)
        shown = {"epoch": progress.episodes, "max_epochs": progress.wanted, "validation": best, "best": best}
        tune.report(shown | {"numbers": numbers(means)})

    parts = dict(zip(refs, ray.get(list(refs.values())), strict=True))
    if run["config"]["actions"]["mixture"] is not None:
        from cluster.rollouts.candidates import in_this_process
        from cluster.rollouts.search import search_agent

        evaluate = in_this_process(run["config"], parts, run["store"])
        search_agent(run["config"], evaluate, run["store"], tell, run["facts"])
        tune.report({"best": best})
        return
    backend = RolloutBackend(partial(Environments, run["config"], refs), 0, run["config"]["resources"]["cpu"])
    train_agent(run["config"], backend, parts, run["store"], tell, run["facts"], leave)
    tune.report({"best": best})
