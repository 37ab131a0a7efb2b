"""Searches the parameters of a mixture policy; each candidate trains its own rankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pyrite.cluster.config.build import build
from pyrite.cluster.output.episodes import LEARNED, table
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.tables import as_parquet
from pyrite.cluster.rollouts.candidates import CandidateTraining, Evaluate, key_of
from pyrite.cluster.rollouts.train_agent import EPISODES, LearningProgress, OnProgress
from pyrite.cluster.runs.agent_file import FILE
from pyrite.cluster.telemetry.training_metrics import LearningMetrics, study_of
from pyrite.ranking.errors import BadInput
from pyrite.rl.agents.search import PolicySearch
from pyrite.rl.mixture import RULES, MixtureAgent


def search_agent(
    config: dict[str, Any],
    evaluate: Evaluate,
    store: ResultStore,
    on_progress: OnProgress = lambda progress: None,
    facts: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Search a mixture policy, and write it and its trainings.

    The result depends on the configuration alone, whatever the interrupts and the backend. A resumed search asks and is
    told again from the finished trainings, and the seeds of a training are named by (seed, generation, number).
    """
    storage = store.storage
    agent: PolicySearch = build(config["agent"])
    generations = generations_of(config, agent)
    empty = _agent(config, agent.rule, np.zeros(0), {})
    features = list(empty.state.features)
    size = RULES[agent.rule].size(len(empty.functions), empty.actions.values, features)
    search = agent.start(size, generations, config["seed"], features)
    rows: list[dict[str, Any]] = []
    metrics = LearningMetrics(study_of(storage.place))
    wanted = generations * agent.candidates * agent.seeds
    for generation in range(generations):
        candidates = search.ask()
        trainings = [
            CandidateTraining(generation, number, seed, _agent(config, agent.rule, parameters, {}))
            for number, parameters in enumerate(candidates)
            for seed in range(agent.seeds)
        ]
        results = {training.key: result for training in trainings if (result := _finished(store, training))}
        for result in evaluate([training for training in trainings if training.key not in results]):
            results[key_of(result["generation"], result["candidate"], result["seed"])] = result
            ended = [*rows, *(_row(empty.functions, other) for other in results.values())]
            on_progress(LearningProgress(ended, len(ended), wanted))
        ordered = [results[training.key] for training in trainings]
        returns = np.array([result["return"] for result in ordered]).reshape(len(candidates), agent.seeds)
        rows += [_row(empty.functions, result) for result in ordered]
        metrics.record(rows, generation + 1 == generations)
        on_progress(LearningProgress(rows, len(rows), wanted))
        search.tell(candidates, returns.mean(axis=1))
    counts = {"trainings": len(rows), "generations": generations, "agent": type(agent).__name__}
    storage.write(FILE, _agent(config, agent.rule, search.result(), {**(facts or {}), **counts}).to_bytes())
    episodes = table(rows)
    storage.write(EPISODES, as_parquet(episodes))
    return episodes


def generations_of(config: dict[str, Any], agent: PolicySearch) -> int:
    """Return the number of generations within the budget of trainings; refuse a budget without any."""
    generations: int = config["episodes"] // (agent.candidates * agent.seeds)
    if not generations:
        what = f"{config['episodes']} trainings are less than a generation of {agent.candidates} × {agent.seeds}"
        raise BadInput(what, "episodes", "give more, or fewer agent.candidates")
    return generations


def _finished(store: ResultStore, training: CandidateTraining) -> dict[str, Any] | None:
    """Return the result of a training if it is finished and of the same candidate."""
    result = store.read(training.key) if store.has(training.key) else None
    same = result is not None and np.array_equal(result["parameters"], training.agent.parameters)
    return result if same else None


def _agent(config: dict[str, Any], rule: str, parameters: Any, facts: Mapping[str, Any]) -> MixtureAgent:
    return MixtureAgent(
        list(config["function"]),
        build(config["actions"]["mixture"]),
        build(config["state"]),
        config["decision_every"],
        rule,
        np.asarray(parameters, np.float64),
        dict(facts),
    )


def _row(functions: Sequence[str], result: Mapping[str, Any]) -> dict[str, Any]:
    decisions = np.array([row[1 : 1 + len(functions)] for row in result["decisions"]]).reshape(-1, len(functions))
    shares = dict(zip(functions, decisions.mean(axis=0) if len(decisions) else np.zeros(len(functions)), strict=True))
    leading = next(iter(result["curve"].values()))
    known = [value for value in leading if value == value]
    return {
        "agent": LEARNED,
        "copy": result["candidate"],
        "episode": result["generation"],
        "return": result["return"],
        "decisions": len(result["decisions"]),
        "validation": max(known, default=0.0),
        "last_validation": known[-1] if known else 0.0,
        "validation_sample": result["return"],
        "epochs": result["epochs"],
        "steps": result["steps"],
        "diverged": result["diverged"],
        "actions": [],
        **{f"share:{name}": float(share) for name, share in shares.items()},
    }


def last_decisions(store: ResultStore) -> list[list[list[float]]]:
    """Return the decisions of the last generation's candidates: by training and decision, [step, shares, window]."""
    keys = store.keys()
    last = max((int(key.partition("-")[0]) for key in keys), default=0)  # see `key_of`
    results = [store.read(key) for key in keys if int(key.partition("-")[0]) == last]
    return [result["decisions"] for result in results if result is not None]
