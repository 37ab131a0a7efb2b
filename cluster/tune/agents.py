"""Learns the agents that a study's policies need before the study runs, each once for all runs that use it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from rich.console import Console

from cluster.config.compose import digest
from cluster.output.episodes import LEARNED, numbers, recent, table
from cluster.output.storage import Storage
from cluster.plan.resources import bundle, strategy
from cluster.plan.sweep import Planned, key_of
from cluster.rollouts.environments import Environments
from cluster.rollouts.request import NOT_OF_THE_RESULT, LearnRequest, compose_learning
from cluster.runs.agent_file import FILE, checkpoint_of, learner_of
from cluster.runs.artifacts import Artifacts
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.runner import run_trials, trial_body
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.rollouts.trainer import Progress

FOLDER = "agents"


@dataclass(frozen=True)
class Agents:
    """What is to be learned before a study can run.

    Args:
        requests: by the agent's name.
    """

    requests: dict[str, LearnRequest]

    def missing(self, runs: Iterable[Planned]) -> dict[str, LearnRequest]:
        """Those that these runs need and that are not there yet."""
        wanted = {checkpoint_of(planned.config) for planned in runs}
        return {
            name: request
            for name, request in self.requests.items()
            if request.storage.place in wanted and FILE not in request.storage.names()
        }


def with_agents(runs: Sequence[Planned], storage: Storage, scaled: Sequence[str] = ()) -> tuple[list[Planned], Agents]:
    """Give each run whose learned policy has no agent the folder in which the study will have learned it.

    The agent is learned in the run's own configuration with `policy.learn` added, and `policy.agent` for its seed.

    Args:
        runs: of the study.
        storage: its folder; agents stand in `agents/NAME` of it.
        scaled: what the experiment's scale says of learning; `policy.learn` says more.
    """
    requests: dict[str, LearnRequest] = {}
    composed: dict[tuple[str, ...], LearnRequest] = {}  # composing takes a tenth of a second, and seeds share one
    given = []
    for planned in runs:
        part = learner_of(planned.config)
        if part is None:
            given.append(planned)
            continue
        overrides = _overrides(planned, part, scaled)
        request = composed.setdefault(overrides, composed.get(overrides) or _request(overrides, storage))
        requests.setdefault(request.storage.place.rpartition("/")[2], request)
        node = planned.config[part] | {"checkpoint": request.storage.place}
        overrides = (*planned.overrides, f"{part}.checkpoint={request.storage.place}")
        given.append(replace(planned, overrides=overrides, config=planned.config | {part: node}))
    return given, Agents(requests)


def _overrides(planned: Planned, part: str, scaled: Sequence[str]) -> tuple[str, ...]:
    """Of the learning that a run's policy or selector needs."""
    node = planned.config[part]
    left_out = ("seed", "policy", "selector") if part == "selector" else ("seed", "policy")
    own = [text for text in planned.overrides if key_of(text).split(".")[0] not in left_out]
    extra = ["actions=documents"] if part == "selector" else []
    return (*own, *extra, *scaled, *node["learn"], f"seed={node['agent']}", "workers=0", "dashboard=false")


def _request(overrides: Sequence[str], storage: Storage) -> LearnRequest:
    config = compose_learning(overrides)
    digested = {key: value for key, value in config.items() if key not in NOT_OF_THE_RESULT}
    digested["resources"] = {key: config["resources"][key] for key in ("cpu", "gpu")}  # as `sweep.identity`
    name = digest(digested)[:10]
    return LearnRequest(config, list(overrides), Storage(f"{storage.place}/{FOLDER}/{name}"))


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
        for part, key in keys.items():
            if key not in shared:
                shared[key] = ray.put(artifacts.part(request.config, part))
        run = {"name": name, "config": request.config, "parts": keys, "place": request.storage.place, "facts": facts}
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
    from cluster.rollouts.trainer import RolloutBackend, train_agent

    run = trial["run"]
    refs = {name: shared[key] for name, key in run["parts"].items()}
    best = 0.0

    def tell(progress: Progress) -> None:
        nonlocal best
        means = recent(table(progress.rows), LEARNED)
        best = means.get("validation", 0.0)
        shown = {"epoch": progress.episodes, "max_epochs": progress.wanted, "validation": best, "best": best}
        tune.report(shown | {"numbers": numbers(means)})

    parts = dict(zip(refs, ray.get(list(refs.values())), strict=True))
    backend = RolloutBackend(partial(Environments, run["config"], refs), 0, run["config"]["resources"]["cpu"])
    train_agent(run["config"], backend, parts, Storage(run["place"]), tell, run["facts"])
    tune.report({"best": best})
