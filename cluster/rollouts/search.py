"""Searches the parameters of a mixture policy: each candidate trains rankers of its own, here or in Ray tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cluster.config.build import build
from cluster.output.episodes import LEARNED, table
from cluster.output.storage import Storage
from cluster.output.tables import as_parquet
from cluster.rollouts.candidates import FOLDER, CandidateTraining, Evaluate, file_of
from cluster.rollouts.trainer import EPISODES, Progress, Tell
from cluster.runs.agent_file import FILE
from cluster.runs.outcome import unpacked
from cluster.telemetry.learning_metrics import LearningMetrics
from cluster.telemetry.training_metrics import study_of
from ranking.errors import BadInput
from rl.agents.search import PolicySearch
from rl.mixture import RULES, WINDOWS, MixtureAgent


def search_agent(
    config: dict[str, Any],
    evaluate: Evaluate,
    storage: Storage,
    tell: Tell = lambda progress: None,
    facts: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Search a mixture policy, and write it and its trainings.

    The result depends on the configuration alone, also after interrupts and whatever trains: a search asks and is told
    again what is known, and each training's seeds are named by (seed, generation, number).

    Args:
        config: of a learning, composed.
        evaluate: trains a generation.
        storage: the folder; trainings in it are not repeated.
        tell: told the progress.
        facts: what the agent's file should say of its making.

    Returns:
        A row a training (`cluster.output.episodes`).
    """
    agent: PolicySearch = build(config["agent"])
    generations = generations_of(config, agent)
    empty = _agent(config, agent.rule, np.zeros(0), {})
    size = RULES[agent.rule].size(len(empty.functions), WINDOWS[empty.actions.window], list(empty.state.features))
    search = agent.start(size, generations, config["seed"])
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
        known = {each.file: result for each in trainings if (result := _known(storage, each))}
        left = [each for each in trainings if each.file not in known]
        for result in evaluate(left):
            known[file_of(result["generation"], result["candidate"], result["seed"])] = result
            ended = [*rows, *(_row(empty.functions, each) for each in known.values())]
            tell(Progress(ended, len(ended), wanted))
        results = [known[each.file] for each in trainings]
        returns = np.array([result["return"] for result in results]).reshape(len(candidates), agent.seeds)
        rows += [_row(empty.functions, result) for result in results]
        metrics.record(rows, generation + 1 == generations)
        tell(Progress(rows, len(rows), wanted))
        search.tell(candidates, returns.mean(axis=1))
    found = {"trainings": len(rows), "generations": generations, "agent": type(agent).__name__}
    storage.write(FILE, _agent(config, agent.rule, search.result(), {**(facts or {}), **found}).to_bytes())
    episodes = table(rows)
    storage.write(EPISODES, as_parquet(episodes))
    return episodes


def generations_of(config: dict[str, Any], agent: PolicySearch) -> int:
    """How many generations the budget of trainings allows.

    Raises:
        BadInput: where it is none.
    """
    generations: int = config["episodes"] // (agent.candidates * agent.seeds)
    if not generations:
        what = f"{config['episodes']} trainings are less than a generation of {agent.candidates} × {agent.seeds}"
        raise BadInput(what, "episodes", "give more, or fewer agent.candidates")
    return generations


def _known(storage: Storage, training: CandidateTraining) -> dict[str, Any] | None:
    """The result of a training that is done, if it is of the same candidate."""
    result: dict[str, Any] | None = unpacked(storage.read(training.file))
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
    """A training as a row of episodes.parquet."""
    decisions = np.array([each[1 : 1 + len(functions)] for each in result["decisions"]]).reshape(-1, len(functions))
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


def last_decisions(storage: Storage) -> list[list[list[float]]]:
    """What the candidates of the last generation decided: by training and decision, step, shares, window."""
    names = sorted(storage.names(FOLDER))
    results = [unpacked(storage.read(f"{FOLDER}/{name}")) for name in names if name.startswith(names[-1][:3])]
    return [result["decisions"] for result in results if result is not None]
