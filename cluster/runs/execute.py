"""Executes one run: trains a ranker with one way of choosing negatives, and measures it."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cluster.config.compose import build
from cluster.plan.resources import check_workers
from cluster.runs.agent_file import check_agent
from cluster.runs.artifacts import read_encoded, validation_parts
from cluster.runs.counts import check_counts, counts_of
from cluster.runs.embeddings import check_vectors, spread_out, vectors_of
from cluster.runs.outcome import Outcome
from cluster.runs.rankers import make_ranker
from cluster.runs.state_tables import equip
from cluster.telemetry.training_metrics import watched
from ranking.checkpoint import from_bytes, to_bytes
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.evaluation.clusters import agreement
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.held_out import HeldOut
from ranking.evaluation.interpolation import best_weight, interpolate
from ranking.labels import labels_of
from ranking.rankers.cascade import Cascade
from ranking.rankers.ranker import Ranker
from ranking.splits import Split
from ranking.training import Batch, OptimizerFactory, RankerTraining
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.dense import Dense
from sampling.retrieval.random import RandomFunction
from sampling.sampler import Sampler
from sampling.staged_training import StagedTraining


class StateStore(Protocol):
    """Where a run keeps its state, to go on after an interrupt."""

    def load(self) -> bytes | None:
        """The last state, None at the start."""

    def save(self, state: bytes) -> None:
        """Keep the state whole."""


@dataclass(frozen=True)
class Progress:
    """Where a run is: told after each validation, and now and then between two.

    Args:
        fold, folds: which one of how many, from 0.
        epoch: epochs that are over; within an epoch it counts that one too, from its first validation on.
        max_epochs: at most.
        loss: mean since the last validation.
        validation: the last value, nan before there is one.
        batch, batches: of the epoch, where it is told between two validations; 0 after one.
        left: seconds to the end of the last epoch at the pace so far, None where it is not known; early stopping may
            end it before.
    """

    fold: int
    folds: int
    epoch: int
    max_epochs: int
    loss: float
    validation: float
    batch: int = 0
    batches: int = 0
    left: float | None = None


TELL_EVERY = 5.0
"""Seconds between two words of progress within an epoch: the first estimate of the time left comes after so many."""


Attach = Callable[[RankerTraining, Sampler], AbstractContextManager[object]]
"""Connects a fresh training and its sampler to what runs outside this process, until the context ends."""


class _Clock:
    """Seconds of training, over interrupts, and when the state was last kept."""

    def __init__(self, before: float) -> None:
        self.started = self.kept = self.told = time.perf_counter()
        self.before = before
        self.first: int | None = None

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

    def time_to_tell(self) -> bool:
        """Whether progress should be told now, between two validations."""
        now = time.perf_counter()
        if now - self.told < TELL_EVERY:
            return False
        self.told = now
        return True

    def left(self, done: int, steps: int) -> float | None:
        """Seconds that the other steps take if they go on as since this process began.

        Args:
            done: steps that are done, those before an interrupt too.
            steps: of the whole.
        """
        if self.first is None:
            self.first = done
        made = done - self.first
        return (time.perf_counter() - self.started) / made * (steps - done) if made > 0 else None


def run(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_epoch: Callable[[Progress], None] = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
    attach: Attach = lambda training, sampler: nullcontext(),
    watch: Mapping[str, str] | None = None,
    on_batch: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Train and evaluate one ranker, in this process.

    The result depends on the configuration alone: to the last bit on a CPU, also after interrupts.

    Args:
        config: a composed configuration.
        parts: its parts (`cluster.runs.artifacts`).
        on_epoch: told the progress after each validation.
        store: keeps the state between interrupts.
        save_every: seconds between two states that are kept.
        attach: connects a fresh training to what runs outside this process, index actors and other workers, until the
            context that it returns ends (`cluster.training.launch`).
        on_batch: told the progress within an epoch, every few seconds.
        watch: tags of its metrics (`cluster.telemetry.training_metrics.run_tags`); None: it tells none.
    """
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    saved = store.load() if store else None
    state = from_bytes(saved) if saved else None
    outcome = Outcome(**state["outcome"]) if state else Outcome()
    splits: list[Split] = parts["base"].splits
    for fold in range(len(outcome.losses), len(splits)):
        with ExitStack() as started:
            staged = StagedTraining(partial(_attached, config, parts, fold, started, attach))
            if state and state["staged"]:
                staged.load_state_dict(state["staged"])
            clock = _Clock(state["seconds"] if state else 0.0)
            state = None

            def keep(training: Any = None, staged: StagedTraining = staged, clock: _Clock = clock) -> None:
                if store and clock.due(save_every):
                    _keep(store, outcome, staged.state_dict(), clock.seconds)

            def after_epoch(
                training: RankerTraining, fold: int = fold, staged: StagedTraining = staged, keep: Any = keep
            ) -> None:
                last = (training.losses[-1], training.validations[-1])
                epochs, limit = staged.epochs + training.epoch, training.max_epochs * len(staged.stages)
                epochs += bool(training.position)  # it was validated within the epoch
                on_epoch(Progress(fold, len(splits), epochs, limit, *last))
                keep()

            def after_step(
                training: RankerTraining,
                fold: int = fold,
                staged: StagedTraining = staged,
                clock: _Clock = clock,
                keep: Any = keep,
            ) -> None:
                if clock.time_to_tell():
                    on_batch(_between(fold, len(splits), staged, clock))
                # Several workers keep states between epochs alone, where none of them is a step ahead.
                if config["resources"]["workers"] == 1:
                    keep()

            with watched(staged, watch, config["validation"]["measure"]):
                clock.left(staged.steps + staged.training.step, 0)
                staged.fit(after_epoch, after_step)
        outcome.seconds += clock.seconds
        _measure(config, parts, fold, staged, outcome)
        if store and fold + 1 < len(splits):
            _keep(store, outcome, None, 0.0)
    return outcome


def _between(fold: int, folds: int, staged: StagedTraining, clock: _Clock) -> Progress:
    """Progress between two validations."""
    training = staged.training
    limit, batches = training.max_epochs * len(staged.stages), training.steps_per_epoch
    left = clock.left(staged.steps + training.step, limit * batches)
    batch = math.ceil(training.position / training.batch_size)
    validation = training.validations[-1] if training.validations else math.nan
    epochs = staged.epochs + training.epoch
    return Progress(fold, folds, epochs, limit, training.running_loss, validation, batch, batches, left)


def _attached(
    config: dict[str, Any],
    parts: dict[str, Any],
    fold: int,
    started: ExitStack,
    attach: Attach,
) -> tuple[RankerTraining, Sampler]:
    """`assemble`, attached to what runs outside this process until `started` ends."""
    training, sampler = assemble(config, parts, fold)
    started.enter_context(attach(training, sampler))
    return training, sampler


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
    base, split, encoded = parts["base"], parts["base"].splits[fold], read_encoded(parts)
    weights, order, sampling = (sequence or np.random.SeedSequence([config["seed"], fold])).spawn(3)
    device = torch.device("cuda" if config["resources"]["gpu"] and torch.cuda.is_available() else "cpu")
    ranker = make_ranker(config, base, np.random.default_rng(weights))
    check_vectors(config, ranker, encoded)
    validation = {
        origin: Evaluation(encoded, parts[name].take(split.dev), [config["validation"]["measure"]])
        for name, origin in validation_parts(config).items()
    }
    objective = build(config["objective"])
    objective.prepare(encoded, parts.get("objective"))
    batches = build(config["batches"], "batches")
    batches.prepare(base.encoded, base.vectors, split.train)
    training = build(config["training"])(
        ranker.to(device),
        objective,
        encoded,
        split.train,
        validation,
        _optimizer(config),
        np.random.default_rng(order),
        held_out=_held_out(config, encoded, split),
        schedule=build(config["scheduler"]),
        validate_every=config["validation"]["every"],
        most_examples=config["limits"]["examples"],
        batches=batches,
        teacher=parts.get("teacher"),
    )
    functions = {}
    for name, node in config["function"].items():
        functions[name] = build(node)
        if isinstance(functions[name], Dense):
            functions[name].guard = build(config["sampling"]["guard"])
        functions[name].prepare(base.encoded, parts[f"function:{name}"].lists)
    selector = build(config["selector"])
    given = policy is not None
    policy = policy or build(config["policy"])
    if "agent" in parts:
        policy = equip(policy, selector, parts)
    sampler = Sampler(
        policy,
        functions,
        selector,
        config["sampling"]["negatives"],
        np.random.default_rng(sampling),
        {name: parts[f"function:{name}"].guarded.total for name in functions},
        {name: build(node, f"selectors.{name}") for name, node in config["selectors"].items()},
        None if given else counts_of(config, functions, policy),
    )
    return training, sampler


def _held_out(config: dict[str, Any], encoded: EncodedCollection, split: Split) -> HeldOut | None:
    """Random negatives for each dev query: the same ones for every run, whatever it is trained on."""
    count = config["validation"]["negatives"]
    if count is None:
        return None
    function = RandomFunction()
    function.prepare(encoded, None)
    relevant = encoded.judgements.relevant()
    positives = relevant.documents[relevant.offsets[split.dev]]
    negatives = function.sample(Batch(split.dev, positives), count, np.random.default_rng(0)).documents
    return HeldOut(encoded, split.dev, np.concatenate([positives[:, None], negatives], 1))


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
    staged: StagedTraining,
    outcome: Outcome,
) -> None:
    """Add a finished fold to the outcome."""
    training = staged.training
    outcome.losses.append(training.losses)
    outcome.validations.append(training.validations)
    outcome.dev_losses.append(training.dev_losses)
    outcome.epochs = max(outcome.epochs, training.epoch)
    outcome.best_epoch = max(outcome.best_epoch, training.best_epoch)
    outcome.steps += staged.steps + training.step
    outcome.sampler += [{"fold": fold, **row} for row in staged.report()]
    outcome.traces.append(staged.sampler.traced())
    for name, function in staged.sampler.functions.items():
        record = function.guarded_documents()
        if record is not None and len(record.documents):
            outcome.guarded.append({"fold": fold, "function": name, **vars(record)})
    if config["weights"]:
        outcome.weights = kept_weights(training.ranker)
    split, encoded = parts["base"].splits[fold], read_encoded(parts)
    queries = split.test
    if config["embeddings"]:
        _keep_embeddings(training.ranker, encoded, queries, outcome)
    validation = Evaluation(encoded, parts["validation"].take(split.dev), [config["validation"]["measure"]])
    weight = best_weight(validation, training.ranker)
    outcome.interpolation += [] if weight is None else [weight]
    for origin in config["origin"]:
        training.restore_best(origin)
        evaluation = Evaluation(encoded, parts[f"origin:{origin}"].take(queries), config["measures"])
        nothing = np.zeros(0)
        scores = evaluation.scores(training.ranker)
        values = evaluation(training.ranker) if scores is None else evaluation.of_scores(scores)
        found = [(outcome.values, values), (outcome.bm25, evaluation.of_bm25())]
        if scores is not None and weight is not None:
            mixed = evaluation.of_scores(interpolate(evaluation, scores, weight))
            found.append((outcome.interpolated, mixed))
        outcome.queries[origin] = np.concatenate([outcome.queries.get(origin, nothing), queries]).astype(np.int64)
        for kept, measured in found:
            before = kept.setdefault(origin, {})
            for measure, value in measured.items():
                before[measure] = np.concatenate([before.get(measure, nothing), value])


def _keep_embeddings(ranker: Ranker, encoded: EncodedCollection, queries: NDArray[np.int64], outcome: Outcome) -> None:
    vectors = vectors_of(ranker, encoded, queries)
    for name, figure in agreement(vectors, labels_of(encoded.queries, "embeddings=true")[queries, 0]).items():
        outcome.clusters.setdefault(name, []).append(figure)
    kept = spread_out(np.arange(len(queries)))
    outcome.embeddings = {"queries": queries[kept], "vectors": vectors[kept]}


def kept_weights(ranker: Ranker) -> dict[str, Any]:
    """Weights by name; of a pretrained ranker the files of a checkpoint, as bytes."""
    save: Callable[[str], None] | None = getattr(ranker, "save_pretrained", None)
    if save is None or getattr(ranker, "categories", None):  # which a checkpoint's folder has no place for
        return dict(ranker.state_dict())
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        files = (file for file in sorted(Path(folder).rglob("*")) if file.is_file())
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def _keep(store: StateStore, outcome: Outcome, staged: Any, seconds: float) -> None:
    state = {"outcome": vars(outcome), "staged": staged, "seconds": seconds}
    store.save(to_bytes(state))


def check(config: dict[str, Any]) -> None:
    """Build what needs no data, so that bad options are refused before anything starts.

    Raises:
        BadInput: where a part of the configuration refuses its options.
    """
    for key in ("objective", "policy", "selector", "vectors", "encoding", "ranker", "training", "scheduler", "batches"):
        made = build(config[key], key)
        if key == "objective":
            passes = getattr(made, "passes", "one")
        if key == "ranker" and issubclass(made.func, Cascade) and passes != "level":
            raise BadInput(
                "a cascade has a model for each level, and this objective scores all levels with the first",
                "objective",
                "choose objective=sir_v3 or sir_v4 with objective.passes=level",
            )
    for group in ("function", "origin"):
        for name, node in config[group].items():
            build(node, f"{group}.{name}")
    check_counts(config)
    check_agent(config)
    check_workers(config["resources"])
    build(config["sampling"]["guard"], "sampling.guard")
    from ranking.evaluation.measures import parse

    for measure in [*config["measures"], config["validation"]["measure"]]:
        parse(measure)
