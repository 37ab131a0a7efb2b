"""One run: a ranker trained with one way of choosing negatives, and measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cluster.configuration import build
from cluster.learning.agent_file import check_agent
from cluster.learning.surroundings import equip
from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from ranking.evaluation.evaluation import Evaluation
from ranking.splits import Split
from ranking.training import OptimizerFactory, RankerTraining
from sampling.policies.policy import SamplingPolicy
from sampling.sampler import Sampler


class StateStore(Protocol):
    """Where a run keeps its state, to go on after an interrupt."""

    def load(self) -> bytes | None:
        """The last state, None at the start."""

    def save(self, state: bytes) -> None:
        """Keep the state whole."""


@dataclass
class Outcome:
    """What a run showed. With folds the queries of all folds stand together.

    Args:
        epochs, best_epoch, steps, seconds: of the training; with folds the largest, the largest, sums.
        losses, validations: a list a fold, a value an epoch.
        queries: by origin, int64 [q], indices of the evaluated queries.
        values: by origin and measure, float64 [q], of the ranker.
        bm25: the same of BM25's own order of the same candidates.
        sampler: a row a fold and function (`Sampler.report`).
        weights: the ranker's best weights, of the last fold, where asked for.
    """

    epochs: int = 0
    best_epoch: int = 0
    steps: int = 0
    seconds: float = 0.0
    losses: list[list[float]] = field(default_factory=list)
    validations: list[list[float]] = field(default_factory=list)
    queries: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    values: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    bm25: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    sampler: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Any] | None = None


def mean_best(outcome: Outcome) -> float:
    """The best validation of each fold, averaged: what a search over hyperparameters maximises.

    A fold that diverged before it was ever measured counts as 0.
    """
    return float(np.mean([max((v for v in curve if v == v), default=0.0) for curve in outcome.validations]))


@dataclass(frozen=True)
class Progress:
    """Where a run is: told after each epoch."""

    fold: int
    folds: int
    epoch: int
    max_epochs: int
    loss: float
    validation: float


class _Clock:
    """Seconds of training, over interrupts, and when the state was last kept."""

    def __init__(self, before: float) -> None:
        self.started = self.kept = time.perf_counter()
        self.before = before

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def due(self, every: float) -> bool:
        """Whether the state should be kept now."""
        now = time.perf_counter()
        if now - self.kept < every:
            return False
        self.kept = now
        return True


def run(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_epoch: Callable[[Progress], None] = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
) -> Outcome:
    """Train and evaluate one ranker.

    The result depends on the configuration alone: to the last bit on a CPU, also after interrupts.

    Args:
        config: a composed configuration.
        parts: its parts (`cluster.preparation`).
        on_epoch: told the progress.
        store: keeps the state between interrupts.
        save_every: seconds between two states that are kept.
    """
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    saved = store.load() if store else None
    state = from_bytes(saved) if saved else None
    outcome = Outcome(**state["outcome"]) if state else Outcome()
    splits: list[Split] = parts["base"].splits
    for fold in range(len(outcome.losses), len(splits)):
        training, sampler = assemble(config, parts, fold)
        if state and state["training"]:
            training.load_state_dict(state["training"])
            sampler.load_state_dict(state["sampler"])
        clock = _Clock(state["seconds"] if state else 0.0)
        state = None

        def after_epoch(
            training: RankerTraining, fold: int = fold, sampler: Sampler = sampler, clock: _Clock = clock
        ) -> None:
            last = (training.losses[-1], training.validations[-1])
            on_epoch(Progress(fold, len(splits), training.epoch, training.max_epochs, *last))
            if store and clock.due(save_every):
                _keep(store, outcome, training.state_dict(), sampler.state_dict(), clock.seconds)

        training.fit(sampler, after_epoch)
        outcome.seconds += clock.seconds
        _measure(config, parts, fold, training, sampler, outcome)
        if store and fold + 1 < len(splits):
            _keep(store, outcome, None, None, 0.0)
    return outcome


def assemble(
    config: dict[str, Any],
    parts: dict[str, Any],
    fold: int,
    sequence: np.random.SeedSequence | None = None,
    policy: SamplingPolicy | None = None,
) -> tuple[RankerTraining, Sampler]:
    """The training of a fold's ranker and the sampler of its negatives, from a configuration.

    Args:
        config: composed.
        parts: its parts.
        fold: of the cross-validation, 0 where there is none.
        sequence: of the seeds; the run's own when None.
        policy: takes the place of the configured one.
    """
    base, split = parts["base"], parts["base"].splits[fold]
    weights, order, sampling = (sequence or np.random.SeedSequence([config["seed"], fold])).spawn(3)
    rng = np.random.default_rng(weights)
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    device = torch.device("cuda" if config["resources"]["gpu"] and torch.cuda.is_available() else "cpu")
    ranker = build(config["ranker"])(vectors=base.vectors.filled(rng), generator=generator)
    validation = Evaluation(base.encoded, parts["validation"].take(split.dev), [config["validation"]["measure"]])
    training = build(config["training"])(
        ranker.to(device),
        build(config["objective"]),
        base.encoded,
        split.train,
        validation,
        _optimizer(config),
        np.random.default_rng(order),
    )
    functions = {}
    for name, node in config["function"].items():
        functions[name] = build(node)
        functions[name].ready(base.encoded, parts[f"function:{name}"].lists)
    selector = build(config["selector"])
    policy = policy or build(config["policy"])
    if "agent" in parts:
        equip(policy, selector, parts)
    sampler = Sampler(
        policy,
        functions,
        selector,
        config["sampling"]["negatives"],
        np.random.default_rng(sampling),
        {name: parts[f"function:{name}"].guarded for name in functions},
    )
    return training, sampler


def _optimizer(config: dict[str, Any]) -> OptimizerFactory:
    """What makes the optimizer; torch checks its options when it does."""
    factory = build(config["optimizer"])

    def make(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        try:
            return factory(parameters)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error), "optimizer") from None

    return make


def _measure(
    config: dict[str, Any],
    parts: dict[str, Any],
    fold: int,
    training: RankerTraining,
    sampler: Sampler,
    outcome: Outcome,
) -> None:
    """Add a finished fold to the outcome."""
    outcome.losses.append(training.losses)
    outcome.validations.append(training.validations)
    outcome.epochs = max(outcome.epochs, training.epoch)
    outcome.best_epoch = max(outcome.best_epoch, training.best_epoch)
    outcome.steps += training.step
    outcome.sampler += [{"fold": fold, **row} for row in sampler.report()]
    if config["weights"]:
        outcome.weights = dict(training.ranker.state_dict())
    queries = parts["base"].splits[fold].test
    for origin in config["origin"]:
        evaluation = Evaluation(parts["base"].encoded, parts[f"origin:{origin}"].take(queries), config["measures"])
        nothing = np.zeros(0)
        outcome.queries[origin] = np.concatenate([outcome.queries.get(origin, nothing), queries]).astype(np.int64)
        for kept, values in ((outcome.values, evaluation(training.ranker)), (outcome.bm25, evaluation.of_bm25())):
            before = kept.setdefault(origin, {})
            for measure, value in values.items():
                before[measure] = np.concatenate([before.get(measure, nothing), value])


def _keep(store: StateStore, outcome: Outcome, training: Any, sampler: Any, seconds: float) -> None:
    state = {"outcome": vars(outcome), "training": training, "sampler": sampler, "seconds": seconds}
    store.save(to_bytes(state))


def check(config: dict[str, Any]) -> None:
    """Build what needs no data, so that bad options are refused before anything starts.

    Raises:
        BadInput: where a part of the configuration refuses its options.
    """
    for key in ("objective", "policy", "selector", "vectors", "encoding", "ranker", "training"):
        made = build(config[key])
        if key == "policy":
            made.ready(list(config["function"]))
    for group in ("function", "origin"):
        for node in config[group].values():
            build(node)
    check_agent(config)
    build(config["sampling"]["guard"])
    from ranking.evaluation.measures import parse

    for measure in [*config["measures"], config["validation"]["measure"]]:
        parse(measure)
