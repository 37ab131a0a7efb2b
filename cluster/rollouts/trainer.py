"""Trains one agent, from its last state to its file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cluster.config.build import build
from cluster.output.episodes import LEARNED, RANDOM, row, table
from cluster.output.storage import Storage
from cluster.output.tables import as_parquet
from cluster.output.throttle import Throttle
from cluster.rollouts import checkpoints
from cluster.rollouts.environments import Environments, gamma_of, spaces_of
from cluster.runs.agent_file import FILE
from cluster.runs.execute import Leave, stay
from cluster.runs.progress import TELL_EVERY
from cluster.telemetry.learning_metrics import LearningMetrics
from cluster.telemetry.training_metrics import study_of
from rl.agents.agent import Agent, AgentTrainer
from rl.agents.random import RandomAgent
from rl.environment import SamplingEnvironment
from rl.imitation import imitate, states_of
from rl.networks import described
from rl.plateau import Plateau
from rl.trained import TrainedAgent

EPISODES = "episodes.parquet"


@dataclass(frozen=True)
class RolloutBackend:
    """Where the copies of a learning are stepped. What is learned does not depend on it.

    Args:
        copies: makes copies, their numbers beginning at the offset that it is given.
        workers: processes that step them; 0 is this one.
        cpus: of each.
    """

    copies: Callable[[int], Callable[[int, int], Any]]
    workers: int
    cpus: float


@dataclass(frozen=True)
class Progress:
    """How far a learning is: told after each update.

    Args:
        rows: of the episodes that have ended, also the random agent's.
        episodes: of the agent that have ended.
        wanted: episodes in the end.
        losses: times that all went back to the last state since a process was lost.
    """

    rows: list[dict[str, Any]]
    episodes: int
    wanted: int
    losses: int = 0


Tell = Callable[[Progress], None]


def train_agent(
    config: dict[str, Any],
    backend: RolloutBackend,
    parts: Mapping[str, Any],
    storage: Storage,
    tell: Tell = lambda progress: None,
    facts: Mapping[str, Any] | None = None,
    leave: Leave = stay,
) -> pl.DataFrame:
    """Learn an agent and write it, its episodes and, on the way, its state.

    The result depends on the configuration alone, also after interrupts and whatever the number of workers.

    Args:
        config: of a learning, composed.
        backend: where its copies are stepped.
        parts: of the configuration.
        storage: the folder; a state in it is gone on with.
        tell: told the progress.
        facts: what the agent's file should say of its making.
        leave: asked every few seconds between two updates (`cluster.runs.execute.Leave`).

    Returns:
        The episodes (`cluster.output.episodes`).
    """
    saved = checkpoints.load(storage)
    rows: list[dict[str, Any]] = saved["rows"] if saved else []
    tell = _measured(tell, LearningMetrics(study_of(storage.place), len(rows)))
    if saved is None and config["random_baseline"]:
        rows += _random_baseline(config, backend, parts, tell)
    trainer = _build(config, build(config["agent"]), backend, parts, 0)
    try:
        if saved:
            trainer.restore(saved["learning"])
        imitation = saved["imitation"] if saved else _imitate(config, trainer, parts)
        _learn(config, trainer, rows, storage, tell, imitation, leave)
        said = {**(facts or {}), "imitation": imitation, **_convergence(config, rows)}
        agent = _agent(config, trainer, parts, said)
        storage.write(FILE, agent.to_bytes())
    finally:
        trainer.close()
    episodes = table(rows)
    storage.write(EPISODES, as_parquet(episodes))
    checkpoints.forget(storage)
    return episodes


def _measured(tell: Tell, metrics: LearningMetrics) -> Tell:
    """Record the progress in the metrics, too."""

    def both(progress: Progress) -> None:
        metrics.record(progress.rows, progress.episodes >= progress.wanted)
        tell(progress)

    return both


def _learn(
    config: dict[str, Any],
    trainer: AgentTrainer,
    rows: list[dict[str, Any]],
    storage: Storage,
    tell: Tell,
    imitation: dict[str, float] | None,
    leave: Leave,
) -> None:
    """Learn until enough episodes have ended, or until it has converged, adding them to `rows`."""
    kept, asked = time.perf_counter(), Throttle(TELL_EVERY)

    def keep() -> None:
        checkpoints.save(storage, {"rows": rows, "imitation": imitation, "learning": trainer.state()})

    count = sum(each["agent"] == LEARNED for each in rows)
    while count < config["episodes"] and not _convergence(config, rows).get("converged"):
        ended = [row(LEARNED, summary) for summary in trainer.update()]
        rows += ended
        count += len(ended)
        tell(Progress(rows, count, config["episodes"]))
        if time.perf_counter() - kept >= config["save_every"]:
            keep()
            kept = time.perf_counter()
        if asked.due():
            leave(keep)


def _convergence(config: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether an agent has converged by the criterion that it was given, and after which episode; {} without one."""
    if config.get("until") is None:
        return {}
    plateau: Plateau = build(config["until"])
    episode = plateau.converged_at([each for each in rows if each["agent"] == LEARNED])
    return {"converged": episode is not None, "converged_at": episode}


def _imitate(config: dict[str, Any], trainer: AgentTrainer, parts: Mapping[str, Any]) -> dict[str, float] | None:
    """Supervised pre-training, where it is asked for; what it came to (`rl.imitation.Imitated`)."""
    node = config["actions"]["imitate"]
    if not node or not node["epochs"]:
        return None
    options = build(node)
    rng = np.random.default_rng(np.random.SeedSequence(config["seed"], spawn_key=(2,)))
    # A copy that neither the agent nor the random agent has, in this process wherever theirs are.
    copies = Environments(config).copies(parts, 2 * config["copies"], 1)
    (environment,) = copies.environments
    assert isinstance(environment, SamplingEnvironment)
    states = states_of(environment, options.states, rng)
    imitated = imitate(described(trainer.network, trainer.policy_weights()), states, options, rng)
    trainer.begin_with(imitated.weights)
    return imitated.figures


def _random_baseline(
    config: dict[str, Any], backend: RolloutBackend, parts: Mapping[str, Any], tell: Tell
) -> list[dict[str, Any]]:
    """Episodes of the random agent, on copies of their own: as many of each, or short ones would come first."""
    trainer = _build(config, RandomAgent(), backend, parts, config["copies"])
    rows: list[dict[str, Any]] = []
    each = math.ceil(config["random_baseline"] / config["copies"])
    try:
        while len(rows) < each * config["copies"]:
            rows += [row(RANDOM, summary) for summary in trainer.update() if summary["episode"] < each]
            tell(Progress(rows, 0, config["episodes"]))
    finally:
        trainer.close()
    return rows


def _build(
    config: dict[str, Any], agent: Agent, backend: RolloutBackend, parts: Mapping[str, Any], offset: int
) -> AgentTrainer:
    observations, actions = spaces_of(config, parts)
    return agent.build(
        backend.copies(offset),
        observations,
        actions,
        seed=config["seed"],
        gamma=gamma_of(config),
        workers=backend.workers,
        copies=config["copies"],
        cpus=backend.cpus,
    )


def _agent(
    config: dict[str, Any], trainer: AgentTrainer, parts: Mapping[str, Any], facts: Mapping[str, Any]
) -> TrainedAgent:
    return TrainedAgent(
        functions=list(config["function"]),
        state=build(config["state"]),
        decision_every=config["decision_every"],
        pairs=config["training"]["batch_size"],
        dimension=parts["compressed"].dimension,
        network=trainer.network,
        weights=trainer.policy_weights(),
        documents=config["actions"]["documents"],
        facts={**facts, **trainer.counters},
    )
