"""Trains one agent, from its last state to its file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from ray.tune.utils import flatten_dict

from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.build import build
from pyrite.cluster.output.episodes import LEARNED, RANDOM, row, table
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts import checkpoints
from pyrite.cluster.rollouts.environments import Environments, gamma_of, state_tables_of
from pyrite.cluster.runs.agent_file import FILE
from pyrite.cluster.runs.execute import Leave, stay
from pyrite.cluster.runs.progress import PROGRESS_EVERY_S
from pyrite.cluster.telemetry.training_metrics import LearningMetrics, study_of
from pyrite.ranking.whole_file import as_parquet
from pyrite.rl.agents.agent import Agent
from pyrite.rl.agents.random import RandomAgent
from pyrite.rl.imitation import imitate, states_of
from pyrite.rl.networks import described
from pyrite.rl.plateau import Plateau
from pyrite.rl.rllib.algorithm import Lockstep
from pyrite.rl.trained import TrainedAgent

EPISODES = "episodes.parquet"
METRICS = ("env_runners", "learners", "timers", "fault_tolerance")
"""Groups of RLlib's metrics that go to the trackers."""


@dataclass(frozen=True)
class LearningProgress:
    """The progress of a learning after an update.

    Args:
        rows: rows of all finished episodes, including the random agent's, of which `episodes` and `wanted` count none.
        metrics: RLlib's numbers, by their path.
    """

    rows: list[dict[str, Any]]
    episodes: int
    wanted: int
    metrics: dict[str, float] = field(default_factory=dict)


OnProgress = Callable[[LearningProgress], None]


def train_agent(
    environments: Environments,
    workers: int,
    store: ResultStore,
    on_progress: OnProgress = lambda progress: None,
    facts: Mapping[str, Any] | None = None,
    leave: Leave = stay,
    on_loss: Callable[[str], None] = lambda line: None,
) -> pl.DataFrame:
    """Train an agent from the last state in its store, and write its file, its episodes and, meanwhile, its state.

    The result depends on the configuration alone, whatever the interrupts and the number of workers.

    Args:
        workers: number of processes that step the environments; 0 steps them in this process.
        facts: facts to write into the agent's file.
        leave: called every few seconds between two updates (see `pyrite.cluster.runs.execute.Leave`).
        on_loss: called with a line about each worker that is lost and repeats its decisions.
    """
    config, storage, state = environments.config, store.storage, checkpoints.load(store)
    rows: list[dict[str, Any]] = state["rows"] if state else []
    metrics = LearningMetrics(study_of(storage.place), len(rows))

    def report(progress: LearningProgress) -> None:
        metrics.record(progress.rows)
        on_progress(progress)

    if state is None and config["random_baseline"]:
        rows += _random_baseline(environments, workers, report, on_loss)
    algorithm = _build(environments, build(config["agent"], trust="composed"), workers, 0, on_loss)
    algorithm.recall = lambda: (checkpoints.load(store) or {}).get("learning")
    try:
        if state:
            algorithm.set_state(state["learning"])
        imitation = state["imitation"] if state else _imitate(environments, algorithm)
        _learn(config, algorithm, rows, store, report, imitation, leave)
        metrics.record(rows, last=True)
        outcome = {**(facts or {}), "imitation": imitation, **_convergence(config, rows)}
        agent = TrainedAgent(
            functions=list(config["function"]),
            state=build(config["state"], trust="composed"),
            decision_every=config["decision_every"],
            pairs=config["training"]["batch_size"],
            dimension=environments.parts()["compressed"].dimension,
            network=algorithm.network,
            weights=algorithm.policy_weights(),
            documents=config["actions"]["documents"],
            facts={**outcome, **algorithm.counters},
            built_from=checkpoints.built_from(store),
        )
        storage.write(FILE, agent.to_bytes())
    finally:
        algorithm.stop()
    episodes = table(rows)
    storage.write(EPISODES, as_parquet(episodes))
    checkpoints.delete(store)
    return episodes


def _learn(
    config: dict[str, Any],
    algorithm: Lockstep,
    rows: list[dict[str, Any]],
    store: ResultStore,
    on_progress: OnProgress,
    imitation: dict[str, float] | None,
    leave: Leave,
) -> None:
    """Update the agent until enough episodes have ended or it has converged, and append its episodes to `rows`."""
    saving, leaving = Throttle(config["save_every"]), Throttle(PROGRESS_EVERY_S)
    saving.due()  # not before the first interval has passed

    def save() -> None:
        checkpoints.save(store, {"rows": rows, "imitation": imitation, "learning": algorithm.get_state()})

    count = sum(episode["agent"] == LEARNED for episode in rows)
    while count < config["episodes"] and not _convergence(config, rows).get("converged"):
        metrics = metrics_of(algorithm.train())
        rows += (ended := [row(LEARNED, summary) for summary in algorithm.ended])
        count += len(ended)
        if ended:  # Tune answers each report within milliseconds, longer than many an update takes
            on_progress(LearningProgress(rows, count, config["episodes"], metrics))
        if saving.due():
            save()
        if leaving.due():
            leave(save)


def metrics_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in a result of RLlib's `Algorithm.train`, by their path."""
    numbers = flatten_dict({f"rllib/{group}": result.get(group, {}) for group in METRICS})
    return {path: float(number) for path, number in numbers.items() if isinstance(number, Real) and number == number}


def _convergence(config: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return whether the agent has converged by the configured criterion, and after which episode; {} without one."""
    if config.get("until") is None:
        return {}
    plateau: Plateau = build(config["until"], trust="composed")
    learned, random = ([row for row in rows if (row["agent"] == LEARNED) == own] for own in (True, False))
    episode = plateau.converged_at(learned, random)
    return {"converged": episode is not None, "converged_at": episode}


def _imitate(environments: Environments, algorithm: Lockstep) -> dict[str, float] | None:
    """Pre-train the agent by imitation and return the figures; None if the configuration requests none."""
    config, node = environments.config, environments.config["actions"]["imitate"]
    if not node or not node["epochs"]:
        return None
    options = build(node, trust="composed")
    rng = np.random.default_rng(np.random.SeedSequence(config["seed"], spawn_key=(2,)))
    # An environment that neither the agent nor the random agent uses, in this process.
    (environment,) = environments([2 * config["copies"]])
    states = states_of(environment, options.states, rng)
    weights, figures = imitate(described(algorithm.network, algorithm.policy_weights()), states, options, rng)
    algorithm.begin_with(weights)
    return figures


def _random_baseline(
    environments: Environments, workers: int, on_progress: OnProgress, on_loss: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return episodes of the random agent, equally many per environment, because short ones would end first."""
    config, rows = environments.config, list[dict[str, Any]]()
    algorithm = _build(environments, RandomAgent(), workers, config["copies"], on_loss)
    count = math.ceil(config["random_baseline"] / config["copies"])
    try:
        while len(rows) < count * config["copies"]:
            algorithm.train()
            rows += [row(RANDOM, summary) for summary in algorithm.ended if summary["episode"] < count]
            on_progress(LearningProgress(rows, 0, config["episodes"]))
    finally:
        algorithm.stop()
    return rows


def _build(
    environments: Environments, agent: Agent, workers: int, offset: int, on_loss: Callable[[str], None]
) -> Lockstep:
    """Return RLlib's Algorithm over the environments from number `offset` on."""
    config, resources = environments.config, environments.config["resources"]
    algorithm = agent.build(
        lambda numbers: environments([offset + number for number in numbers]),
        state_tables_of(config, environments.parts()).space,
        actions_of(config).space,
        seed=config["seed"],
        gamma=gamma_of(config),
        workers=workers,
        copies=config["copies"],
        cpus=resources["cpu"],
        gpus=resources["gpu"],
        custom=resources["custom"],
    )
    algorithm.on_loss = on_loss
    return algorithm
