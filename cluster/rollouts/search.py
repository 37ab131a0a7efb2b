"""Searches the parameters of a mixture policy: each candidate trains rankers of its own, here or in Ray tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import torch

from cluster.config.build import build
from cluster.output.episodes import LEARNED, table
from cluster.output.storage import Storage
from cluster.output.tables import as_parquet
from cluster.plan.resources import process_options
from cluster.rollouts.trainer import EPISODES, Progress, Tell
from cluster.runs.agent_file import FILE, read_agent
from cluster.runs.assemble import assemble
from cluster.runs.outcome import unpacked
from cluster.telemetry.learning_metrics import LearningMetrics
from cluster.telemetry.training_metrics import study_of
from ranking.checkpoint import to_bytes
from ranking.errors import BadInput
from ranking.training import RankerTraining
from rl.agents.evolution import Evolution
from rl.agents.fitted import LoggedTraining
from rl.agents.search import PolicySearch
from rl.mixture import RULES, WINDOWS, MixtureAgent, MixturePolicy
from sampling.sampler import Sampler

FOLDER = "trainings"
STATES = "states"
"""Where trainings that are compared in parts are kept until the next part is done."""


@dataclass(frozen=True)
class CandidateTraining:
    """One ranker that one candidate trains.

    Args:
        generation, candidate, seed: which one: generations count from 0, and a generation shares its seeds. Where
            trainings are compared in parts, each part counts as a generation.
        agent: the candidate.
        until: the share of its budget at which it is told.
        parent: the candidate of the generation before from whose state it goes on; None begins afresh.
    """

    generation: int
    candidate: int
    seed: int
    agent: MixtureAgent
    until: float = 1.0
    parent: int | None = None

    @property
    def file(self) -> str:
        """Where its result stands in the output folder."""
        return _file(self.generation, self.candidate, self.seed)

    def sequence(self, seed: int) -> np.random.SeedSequence:
        """The seeds of the training; no run that is evaluated has them (those have no spawn key that begins so)."""
        return np.random.SeedSequence(seed, spawn_key=(3, self.generation, self.seed))


def _file(generation: int, candidate: int, seed: int, folder: str = FOLDER) -> str:
    return f"{folder}/{generation:03d}-{candidate:02d}-{seed}.safetensors"


Evaluate = Callable[[Sequence[CandidateTraining]], Iterator[dict[str, Any]]]
"""Trains each of a generation, and hands on their results in any order (`train_candidate`)."""


def train_candidate(
    config: dict[str, Any], parts: Mapping[str, Any], training: CandidateTraining, storage: Storage
) -> dict[str, Any]:
    """Train a ranker under a candidate and keep what came of it.

    Args:
        config: of a learning.
        parts: of the configuration.
        training: which one.
        storage: the output folder.

    Returns:
        A mapping with the keys generation, candidate, seed, parameters, best (by origin of the validation, of the
        best checkpoint), return (their mean, less what its functions cost), curve, decisions (step, shares, window),
        states (what each saw), and of the training epochs, steps, diverged.
    """
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    policy = MixturePolicy(training.agent)
    made, sampler = assemble(config, dict(parts), 0, training.sequence(config["seed"]), policy)
    if training.parent is not None:
        _go_on(made, sampler, training, storage)
    reached = None
    if training.until < 1:
        reached = _fit_until(made, sampler, training.until)
        state = to_bytes([made.state_dict(), sampler.state_dict()])
        storage.write(_file(training.generation, training.candidate, training.seed, STATES), state)
    else:
        made.fit(sampler)
    curves = {origin or "validation": list(values) for origin, values in made.stopping.values.items()}
    best = {origin: max((value for value in curve if value == value), default=0.0) for origin, curve in curves.items()}
    value = float(np.mean(list(best.values()))) if reached is None else reached
    functions = training.agent.functions
    shares = np.array([each[1 : 1 + len(functions)] for each in policy.decisions]).reshape(-1, len(functions))
    result = {
        "generation": training.generation,
        "candidate": training.candidate,
        "seed": training.seed,
        "parameters": training.agent.parameters,
        "best": best,
        "return": value - training.agent.actions.charged(functions, shares),
        "curve": curves,
        "decisions": policy.decisions,
        "states": policy.states,
        "epochs": made.epoch,
        "steps": made.step,
        "diverged": made.diverged,
    }
    storage.write(training.file, to_bytes(result))
    return result


def _go_on(made: RankerTraining, sampler: Sampler, training: CandidateTraining, storage: Storage) -> None:
    """Take the state that the part before left.

    Raises:
        BadInput: where it is gone.
    """
    assert training.parent is not None
    file = _file(training.generation - 1, training.parent, training.seed, STATES)
    state = unpacked(storage.read(file))
    if state is None:
        raise BadInput("is gone, or damaged", f"{storage.place}/{file}", "learn again in another folder")
    made.load_state_dict(state[0])
    sampler.load_state_dict(state[1])


def _fit_until(made: RankerTraining, sampler: Sampler, share: float) -> float:
    """Train up to a share of the budget; the mean of what the ranker reaches there, by each origin of validation."""
    end = round(share * made.steps_per_epoch * made.max_epochs)
    while not made.done and made.step < end:
        if made.validation_due:
            made.validate()
            continue
        batch = made.next_batch()
        negatives = sampler.negatives(batch, made)
        sampler.observe(negatives, made.update(batch, negatives, sampler.source_scores))
    measured = [next(iter(each(made.ranker).values())).mean() for each in made.evaluations.values()]
    return 0.0 if made.diverged else float(np.mean(measured))


def in_this_process(config: dict[str, Any], parts: Mapping[str, Any], storage: Storage) -> Evaluate:
    """Train one after the other, here."""

    def evaluate(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
        for each in trainings:
            yield train_candidate(config, parts, each, storage)

    return evaluate


def in_ray_tasks(config: dict[str, Any], parts: Mapping[str, Any], storage: Storage) -> Evaluate:
    """Train each in a Ray task of its own, `workers` at once or as many as the cluster has room for.

    A task whose process or machine is lost runs again, as Ray does it.
    """
    import ray

    shared = {name: ray.put(part) for name, part in parts.items()}
    options: dict[str, Any] = {**process_options(config["resources"]), "max_retries": 5}
    task: Any = ray.remote(**options)(_train_task)

    def evaluate(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
        waiting, running = list(trainings), list[Any]()
        while waiting or running:
            while waiting and len(running) < (config["workers"] or len(trainings)):
                each = waiting.pop(0)
                named = task.options(name=f"generation {each.generation} candidate {each.candidate}")
                running.append(named.remote(config, shared, each, storage))
            ready, running = ray.wait(running)
            yield from ray.get(ready)

    return evaluate


def _train_task(
    config: dict[str, Any], shared: Mapping[str, Any], training: CandidateTraining, storage: Storage
) -> dict[str, Any]:
    import ray

    parts = dict(zip(shared, ray.get(list(shared.values())), strict=True))
    return train_candidate(config, parts, training, storage)


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
    if isinstance(agent, Evolution) and agent.warm_start is not None:
        logged = logged_trainings(agent.warm_start, empty)
        search = agent.start(size, generations, config["seed"], logged, len(empty.functions) - 1)
    else:
        search = agent.start(size, generations, config["seed"])
    rows: list[dict[str, Any]] = []
    metrics = LearningMetrics(study_of(storage.place))
    wanted = generations // agent.parts * agent.candidates * agent.seeds
    for generation in range(generations):
        candidates = search.ask()
        trainings = [
            CandidateTraining(
                generation,
                number,
                seed,
                _agent(config, agent.rule, parameters, {}),
                search.until,
                search.parent(number),
            )
            for number, parameters in enumerate(candidates)
            for seed in range(agent.seeds)
        ]
        known = {each.file: result for each in trainings if (result := _known(storage, each))}
        left = [each for each in trainings if each.file not in known]
        for result in evaluate(left):
            known[_file(result["generation"], result["candidate"], result["seed"])] = result
            if search.until == 1:
                ended = [*rows, *(_row(empty.functions, each) for each in known.values())]
                tell(Progress(ended, len(ended), wanted))
        results = [known[each.file] for each in trainings]
        returns = np.array([result["return"] for result in results]).reshape(len(candidates), agent.seeds)
        if search.until == 1:  # else it is a part of a training
            rows += [_row(empty.functions, result) for result in results]
            metrics.record(rows, generation + 1 == generations)
            tell(Progress(rows, len(rows), wanted))
        search.tell(candidates, returns.mean(axis=1))
        for each in trainings if generation else ():
            storage.delete(_file(generation - 1, each.candidate, each.seed, STATES))
    found = {"trainings": len(rows), "generations": generations, "agent": type(agent).__name__}
    storage.write(FILE, _agent(config, agent.rule, search.result(), {**(facts or {}), **found}).to_bytes())
    episodes = table(rows)
    storage.write(EPISODES, as_parquet(episodes))
    return episodes


def generations_of(config: dict[str, Any], agent: PolicySearch) -> int:
    """How many generations the budget of trainings allows, each part of one counted.

    Raises:
        BadInput: where it is none.
    """
    generations: int = config["episodes"] // (agent.candidates * agent.seeds) * agent.parts
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


def logged_trainings(place: str, like: MixtureAgent) -> list[LoggedTraining]:
    """The trainings of an earlier learning; of each its return less the mean of those that had its seeds.

    Args:
        place: folder or URI of the learning.
        like: what is learned now.

    Raises:
        BadInput: where it learned something else.
    """
    agent, storage = read_agent(place), Storage(place)
    differing = [
        name
        for name in ("functions", "actions", "state")
        if not isinstance(agent, MixtureAgent) or getattr(agent, name) != getattr(like, name)
    ]
    if differing or not isinstance(agent, MixtureAgent):
        raise BadInput(f"was learned with other {', '.join(differing)}", place, "name a learning with the same")
    results = [unpacked(storage.read(f"{FOLDER}/{name}")) for name in sorted(storage.names(FOLDER))]
    rows, returns = list[tuple[Any, Any, Any]](), dict[tuple[int, int], list[float]]()
    for result in results:
        if result is None:
            continue
        rule, states = replace(agent, parameters=result["parameters"]).decide(), np.array(result["states"])
        decided = [rule(state) for state in states]
        actions = np.array([np.concatenate([shares[1:], hardness]) for shares, hardness in decided])
        shared = result["generation"], result["seed"]
        returns.setdefault(shared, []).append(result["return"])
        rows.append((states, actions, (shared, result["return"])))
    return [
        LoggedTraining(states, actions, worth - float(np.mean(returns[shared])))
        for states, actions, (shared, worth) in rows
    ]


def last_decisions(storage: Storage) -> list[list[list[float]]]:
    """What the candidates of the last generation decided: by training and decision, step, shares, window."""
    names = sorted(storage.names(FOLDER))
    results = [unpacked(storage.read(f"{FOLDER}/{name}")) for name in names if name.startswith(names[-1][:3])]
    return [result["decisions"] for result in results if result is not None]
