"""Trains the candidates of a search: in this process, in Ray tasks, or on several workers each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.resources import Resources, at_once, check_demand, demand
from pyrite.cluster.executors.task import Executor, Task, Watch
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.training import RankerTraining
from pyrite.rl.mixture import MixtureAgent, MixturePolicy
from pyrite.sampling.sampler import Sampler

FOLDER = "trainings"
"""Folder of the results of trainings."""
BODY, ON_WORKERS = (
    "pyrite.cluster.rollouts.candidates:train_candidate",
    "pyrite.cluster.rollouts.candidates:train_on_workers",
)
"""Bodies of the tasks."""


@dataclass(frozen=True)
class CandidateTraining:
    """The training of one ranker under one candidate. A generation shares its seeds."""

    generation: int
    candidate: int
    seed: int
    agent: MixtureAgent

    @property
    def key(self) -> str:
        """The name of its result."""
        return key_of(self.generation, self.candidate, self.seed)

    def sequence(self, seed: int) -> np.random.SeedSequence:
        """Return the seeds of the training. Evaluated runs never have them: their spawn keys begin otherwise."""
        return np.random.SeedSequence(seed, spawn_key=(3, self.generation, self.seed))


def key_of(generation: int, candidate: int, seed: int) -> str:
    """Return the name of a training's result."""
    return f"{generation:03d}-{candidate:02d}-{seed}"


Evaluate = Callable[[Sequence[CandidateTraining]], Iterator[dict[str, Any]]]
"""Trains all of a generation and yields their results in any order (`train_candidate`)."""


def train_candidate(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    training: CandidateTraining,
    store: ResultStore,
    attach: Callable[[RankerTraining, Sampler], None] = lambda ranker_training, sampler: None,
    writes: bool = True,
) -> dict[str, Any]:
    """Train a ranker under a candidate and write the result.

    Args:
        attach: joins the training to the other workers that share it.
        writes: whether this process writes the result; one of several workers does.

    Returns:
        A mapping with the keys generation, candidate, seed, parameters, best (of the best checkpoint, by origin of the
        validation), return (their mean, minus the cost of the functions), curve, decisions (step, shares, window),
        states (of each decision), and epochs, steps and diverged of the training.
    """
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    policy = MixturePolicy(training.agent)
    ranker_training, sampler = assemble(config, dict(parts), 0, training.sequence(config["seed"]), policy)
    attach(ranker_training, sampler)
    ranker_training.fit(sampler)
    curves = {origin or "validation": list(values) for origin, values in ranker_training.stopping.values.items()}
    best = {origin: max((value for value in curve if value == value), default=0.0) for origin, curve in curves.items()}
    value = float(np.mean(list(best.values())))
    functions = training.agent.functions
    shares = np.array([row[1 : 1 + len(functions)] for row in policy.decisions]).reshape(-1, len(functions))
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
        "epochs": ranker_training.epoch,
        "steps": ranker_training.step,
        "diverged": ranker_training.diverged,
    }
    if writes:
        store.write(training.key, result)
    return result


def in_this_process(config: dict[str, Any], parts: Mapping[str, Any], store: ResultStore) -> Evaluate:
    """Return what trains one candidate after another in this process."""
    executor = LocalExecutor(shared={"config": config, "parts": parts, "store": store})
    return partial(_train_all, executor, BODY, {}, Resources(), None)


def in_ray_tasks(
    config: dict[str, Any], parts: Mapping[str, Any], store: ResultStore, watch: Watch | None = None
) -> Evaluate:
    """Return what trains each candidate in a Ray task, `workers` at once or as many as the cluster has room for.

    With `resources.workers` above 1, a task waits for the workers of its training. Ray Train places these, so they are
    counted here.

    Raises:
        BadInput: if a training asks for more workers than a local Ray has room for.
    """
    import ray

    from pyrite.cluster.executors.ray_tasks import RayExecutor

    options, workers = config["resources"], config["workers"]
    alone = options["workers"] == 1
    if not alone and not is_cluster(config["address"]):
        check_demand(options, ray.cluster_resources())
    references = {name: ray.put(part) for name, part in parts.items()}
    shared = {"config": config, "store": store} | ({"parts": references} if alone else {})

    def room() -> int | None:
        return workers or (None if alone else at_once([demand(options)], ray.cluster_resources()))

    # A mapping of references reaches the workers as it is, so that each worker opens the parts.
    body, arguments = (BODY, {}) if alone else (ON_WORKERS, {"shared": references})
    executor = RayExecutor(shared, at_once=room)
    return partial(_train_all, executor, body, arguments, Resources.of_run(options), watch)


def _train_all(
    executor: Executor,
    body: str,
    arguments: Mapping[str, Any],
    resources: Resources,
    watch: Watch | None,
    trainings: Sequence[CandidateTraining],
) -> Iterator[dict[str, Any]]:
    tasks = [
        Task(
            training.key,
            body,
            {"training": training, **arguments},
            resources,
            label=f"generation {training.generation} candidate {training.candidate}",
        )
        for training in trainings
    ]
    for done in executor.run(tasks, watch=watch):
        yield done.result()


def train_on_workers(
    config: dict[str, Any], shared: Mapping[str, Any], training: CandidateTraining, store: ResultStore
) -> dict[str, Any]:
    """Train a candidate on `resources.workers` workers, with equal numbers up to rounding."""
    from pyrite.cluster.training.workers import on_workers

    work = partial(_train_share, config, dict(shared), training, store)
    return on_workers(work, config["resources"], f"{FOLDER}/{training.key}")


def _train_share(
    config: dict[str, Any],
    shared: Mapping[str, Any],
    training: CandidateTraining,
    store: ResultStore,
    coordinator: Any,
    first: bool,
) -> dict[str, Any]:
    from pyrite.cluster.executors.ray_tasks import opened
    from pyrite.cluster.training.attach import attach_workers

    return train_candidate(config, opened(shared), training, store, attach_workers, writes=first)
