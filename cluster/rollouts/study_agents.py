"""Learns the agents that a study's policies need before the study runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import Context, Task
from pyrite.cluster.executors.tune import TuneExecutor
from pyrite.cluster.output.episodes import LEARNED, numbers, recent, table
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.rollouts.environments import Environments
from pyrite.cluster.rollouts.request import AGENTS, LearnRequest
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.run_watch import RunWatch, raise_unwritable
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pyrite.cluster.rollouts.train_agent import LearningProgress


def learn_agents(
    requests: dict[str, LearnRequest],
    options: dict[str, Any],
    artifacts: Artifacts,
    console: Console,
    tracking: Tracking,
) -> None:
    """Learn agents, each in a trial; raise `BadInput` if one could not be learned."""
    console.print(f"{len(requests)} agent{'s' * (len(requests) > 1)} to learn first")
    stored = artifacts.share(request.config for request in requests.values())
    tasks = []
    for name, request in requests.items():
        collection = artifacts.collection(request.config)
        facts = {"collection": collection.name, "fingerprint": collection.fingerprint}
        request.record(collection)
        keys = artifacts.keys(request.config)
        arguments = {"config": request.config, "keys": keys, "store": request.store(keys), "facts": facts}
        resources = request.config["resources"]
        placed = replace(Resources.of(resources), strategy=resources["placement"].upper())
        body, overrides = (
            "pyrite.cluster.rollouts.study_agents:learn_agent",
            {"overrides": shlex.join(request.arguments)},
        )
        tasks.append(Task(name, body, arguments, placed, facts=overrides))
    measure = next(iter(requests.values())).config["validation"]["measure"]
    executor = TuneExecutor({"stored": stored}, options["concurrent"], name="StudyAgent")
    with LiveTable(console, len(requests), 0, measure, "episode") as live:
        watch = RunWatch(live, tracking)
        for done in executor.run(tasks, watch=watch, retries=options["retries"]):
            raise_unwritable(done)
    for name, error in watch.errors.items():
        raise BadInput(f"an agent could not be learned ({error})", f"{AGENTS}/{name}", "continue with --resume")


def learn_agent(
    config: dict[str, Any],
    keys: Mapping[str, str],
    store: ResultStore,
    facts: Mapping[str, Any],
    stored: Mapping[str, Any],
    context: Context,
) -> dict[str, float]:
    """Learn one agent, whose environments are stepped in this process: the body of an agent's task.

    Args:
        stored: references to the parts of all agents in the object store, by key; only those of this one are opened.
    """
    # RLlib, which a study without agents does not need.
    from pyrite.cluster.rollouts.train_agent import train_agent

    references = {name: stored[key] for name, key in keys.items()}
    best = 0.0

    def report(progress: LearningProgress) -> None:
        nonlocal best
        means = recent(table(progress.rows), LEARNED)
        best = means.get("validation", 0.0)
        shown = {"epoch": progress.episodes, "max_epochs": progress.wanted, "validation": best, "best": best}
        context.report(shown | {"numbers": numbers(means)})

    train_agent(Environments(config, references), 0, store, report, facts, context.leave)
    return {"best": best}
