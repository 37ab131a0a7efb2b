"""Trains the candidates of a search: here, in Ray tasks, or on several workers each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from cluster.executors.resources import WAITING, at_once, check_demand, demand, may_grow, process_options
from cluster.output.storage import Storage
from cluster.runs.assemble import assemble
from ranking.checkpoint import from_bytes, to_bytes
from ranking.training import RankerTraining
from rl.mixture import MixtureAgent, MixturePolicy
from sampling.sampler import Sampler

FOLDER = "trainings"


@dataclass(frozen=True)
class CandidateTraining:
    """One ranker that one candidate trains.

    Args:
        generation, candidate, seed: which one: generations count from 0, and a generation shares its seeds.
        agent: the candidate.
    """

    generation: int
    candidate: int
    seed: int
    agent: MixtureAgent

    @property
    def file(self) -> str:
        """Where its result stands in the output folder."""
        return file_of(self.generation, self.candidate, self.seed)

    def sequence(self, seed: int) -> np.random.SeedSequence:
        """The seeds of the training; no run that is evaluated has them (those have no spawn key that begins so)."""
        return np.random.SeedSequence(seed, spawn_key=(3, self.generation, self.seed))


def file_of(generation: int, candidate: int, seed: int) -> str:
    """The path of a training's result in the output folder."""
    return f"{FOLDER}/{generation:03d}-{candidate:02d}-{seed}.safetensors"


Evaluate = Callable[[Sequence[CandidateTraining]], Iterator[dict[str, Any]]]
"""Trains each of a generation, and hands on their results in any order (`train_candidate`)."""


def train_candidate(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    training: CandidateTraining,
    storage: Storage,
    attach: Callable[[RankerTraining, Sampler], None] = lambda made, sampler: None,
    keeps: bool = True,
) -> dict[str, Any]:
    """Train a ranker under a candidate and keep what came of it.

    Args:
        config: of a learning.
        parts: of the configuration.
        training: which one.
        storage: the output folder.
        attach: joins the training to the other workers that share it.
        keeps: whether this process writes what comes of it: one of the workers does.

    Returns:
        A mapping with the keys generation, candidate, seed, parameters, best (by origin of the validation, of the
        best checkpoint), return (their mean, less what its functions cost), curve, decisions (step, shares, window),
        states (what each saw), and of the training epochs, steps, diverged.
    """
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    policy = MixturePolicy(training.agent)
    made, sampler = assemble(config, dict(parts), 0, training.sequence(config["seed"]), policy)
    attach(made, sampler)
    made.fit(sampler)
    curves = {origin or "validation": list(values) for origin, values in made.stopping.values.items()}
    best = {origin: max((value for value in curve if value == value), default=0.0) for origin, curve in curves.items()}
    value = float(np.mean(list(best.values())))
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
    if keeps:
        storage.write(training.file, to_bytes(result))
    return result


def in_this_process(config: dict[str, Any], parts: Mapping[str, Any], storage: Storage) -> Evaluate:
    """Train one after the other, here."""

    def evaluate(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
        for each in trainings:
            yield train_candidate(config, parts, each, storage)

    return evaluate


def in_ray_tasks(config: dict[str, Any], parts: Mapping[str, Any], storage: Storage) -> Evaluate:
    """Train each in a Ray task of its own, `workers` at once or as many as the cluster has room for.

    A task whose process or machine is lost runs again, as Ray does it. With `resources.workers` above 1 a task waits
    for the workers of its training, which Ray Train places, and which are counted here.

    Raises:
        BadInput: where a training asks for more workers than a local Ray has room for.
    """
    import ray

    shared = {name: ray.put(part) for name, part in parts.items()}
    asked = config["resources"]
    alone = asked["workers"] == 1
    if not alone and not may_grow(config["address"]):
        check_demand(asked, ray.cluster_resources())
    taken = process_options(asked) if alone else {"num_cpus": 0, "memory": WAITING}
    task: Any = ray.remote(**taken, max_retries=5)(_train_task if alone else train_on_workers)

    def evaluate(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
        waiting, running = list(trainings), list[Any]()
        while waiting or running:
            room = len(trainings) if alone else at_once([demand(asked)], ray.cluster_resources())
            while waiting and len(running) < (config["workers"] or room or 1):
                each = waiting.pop(0)
                named = task.options(name=f"generation {each.generation} candidate {each.candidate}")
                running.append(named.remote(config, shared, each, storage))
            ready, running = ray.wait(running)
            yield from ray.get(ready)

    return evaluate


def train_on_workers(
    config: dict[str, Any], shared: Mapping[str, Any], training: CandidateTraining, storage: Storage
) -> dict[str, Any]:
    """Train a candidate on the workers that `resources` asks for: the same numbers, to rounding.

    Args:
        config, training, storage: of `train_candidate`.
        shared: its parts, or references to them in the object store.
    """
    from cluster.training.workers import on_workers

    def work(coordinator: Any) -> Callable[[], None]:
        return partial(_train_share, config, dict(shared), training, storage, coordinator)

    result: dict[str, Any] = from_bytes(on_workers(work, config["resources"], training.file))
    return result


def _train_share(
    config: dict[str, Any],
    shared: Mapping[str, Any],
    training: CandidateTraining,
    storage: Storage,
    coordinator: Any,
) -> None:
    """What each worker does."""
    import ray
    from ray.util.placement_group import get_current_placement_group

    from cluster.training.attach import attach_workers

    parts = {name: ray.get(part) if isinstance(part, ray.ObjectRef) else part for name, part in shared.items()}
    first = ray.train.get_context().get_world_rank() == 0
    if first:
        ray.get(coordinator.add_placement_group.remote(get_current_placement_group()))
    result = train_candidate(config, parts, training, storage, attach_workers, keeps=first)
    if first:
        ray.get(coordinator.finish.remote(to_bytes(result)))


def _train_task(
    config: dict[str, Any], shared: Mapping[str, Any], training: CandidateTraining, storage: Storage
) -> dict[str, Any]:
    import ray

    parts = dict(zip(shared, ray.get(list(shared.values())), strict=True))
    return train_candidate(config, parts, training, storage)
