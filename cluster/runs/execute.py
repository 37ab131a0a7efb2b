"""Executes one run: trains a ranker with one way of choosing negatives, and evaluates it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from safetensors.torch import save

from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.measure import PeakMemory, measure
from pyrite.cluster.runs.outcome import FOLDER, Outcome, write_outcome
from pyrite.cluster.runs.progress import Clock, Progress
from pyrite.cluster.runs.states import StateStore, load_state, save_state
from pyrite.cluster.runs.trained import weights_description
from pyrite.cluster.telemetry.training_metrics import run_tags, watched
from pyrite.ranking.errors import BadInput
from pyrite.ranking.splits import Split
from pyrite.ranking.threads import use_threads
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.staged_training import StagedTraining

Attach = Callable[[RankerTraining, Sampler], AbstractContextManager[object]]
"""Connects a new training and its sampler to other processes, until the context ends."""


OnProgress = Callable[[Progress], None]
Leave = Callable[[Callable[[], None]], None]
"""Called every few seconds between two batches, with a function that saves the state. If the run must continue
elsewhere, it saves the state and raises (`pyrite.cluster.executors.lost_process.leave`)."""


def stay(keep: Callable[[], None]) -> None:
    """Never leave: the `Leave` of a run that nothing would start elsewhere."""


def execute_run(
    name: str,
    config: dict[str, Any],
    made_of: Mapping[str, str],
    parts: dict[str, Any],
    storage: Storage,
    on_progress: OnProgress,
    start: Callable[..., Outcome],
) -> Outcome:
    """Execute a run from its last state to its result in an output folder, which has its weights separately.

    Args:
        made_of: what it is built from (`Artifacts.provenance`); written into the result.
        start: executes the run: `run`, or what `pyrite.cluster.training.study_runs.launcher` returns.
    """
    state = ResultStore(storage, FOLDER, made_of).state(name)
    watch = run_tags(storage.place, config)
    outcome = start(config, parts, on_progress, state, config["save_every"], watch=watch)
    weights, outcome.weights, outcome.made_of = outcome.weights, None, dict(made_of)
    if weights is not None:
        if any(isinstance(content, bytes) for content in weights.values()):  # the files of a checkpoint
            for file, content in weights.items():
                storage.write_data(f"weights/{name}/{file}", content)
        else:
            storage.write(f"weights/{name}.safetensors", save(weights))
        storage.write_data(f"weights/{name}.json", weights_description(config, parts))
    write_outcome(storage, name, outcome)
    state.delete()
    return outcome


def run(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_progress: OnProgress = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
    attach: Attach = lambda training, sampler: nullcontext(),
    watch: Mapping[str, str] | None = None,
    leave: Leave = stay,
) -> Outcome:
    """Train and evaluate one ranker, in this process.

    The result depends on the configuration alone, to the last bit on a CPU and whatever the interrupts.

    Args:
        on_progress: called after each validation and, within an epoch, every few seconds.
        save_every: seconds between two saved states.
        watch: tags of its metrics (`pyrite.cluster.telemetry.training_metrics.run_tags`); None records no metrics.
        leave: see `Leave`. What it raises ends the run.
    """
    use_threads(config["resources"]["cpu"])
    peak = PeakMemory()
    state = load_state(store) if store else None
    outcome = Outcome(**state["outcome"]) if state else Outcome()
    splits: list[Split] = parts["base"].splits
    for fold in range(len(outcome.losses), len(splits)):
        with ExitStack() as started:
            staged = StagedTraining(partial(_attached, config, parts, fold, started, attach))
            if state and state["staged"] is not None:  # None: it was saved between two folds
                staged.load_state_dict(state["staged"])
            clock = Clock(state["seconds"] if state else 0.0, staged.steps + staged.training.step, save_every)
            state = None
            fold_run = _FoldRun(config, fold, len(splits), staged, clock, store, outcome, on_progress, leave)
            with watched(staged, watch, config["validation"]["measure"]):
                for training in staged.trainings():
                    training.fit(staged.sampler, fold_run.after_validation, fold_run.after_step)
        outcome.seconds += clock.seconds
        outcome.memory = max(filter(None, (outcome.memory, peak.mib())), default=None)
        try:
            measure(config, parts, fold, staged, outcome)
        except FloatingPointError:
            if not staged.training.diverged:
                raise
            raise _diverged(config, staged.training) from None
        if store and fold + 1 < len(splits):
            _save(store, outcome, None, 0.0)
    return outcome


def _attached(
    config: dict[str, Any], parts: dict[str, Any], fold: int, started: ExitStack, attach: Attach
) -> tuple[RankerTraining, Sampler]:
    """Call `assemble`, and attach the result to other processes until `started` ends."""
    training, sampler = assemble(config, parts, fold)
    started.enter_context(attach(training, sampler))
    return training, sampler


def _diverged(config: dict[str, Any], training: RankerTraining) -> BadInput:
    """Return the error for a training that left no weights to measure."""
    rate = config["optimizer"].get("lr")
    what = f"training diverged in epoch {training.epoch + bool(training.position)} (scores are not numbers)"
    remedy = "lower the learning rate" if rate is None else f"lower optimizer.lr (now {rate:g})"
    return BadInput(what, remedy=remedy)


@dataclass
class _FoldRun:
    """One fold of a run, which saves its state and reports its progress; `outcome` is that of the folds before."""

    config: dict[str, Any]
    fold: int
    folds: int
    staged: StagedTraining
    clock: Clock
    store: StateStore | None
    outcome: Outcome
    on_progress: OnProgress
    leave: Leave

    def __post_init__(self) -> None:
        self.saved_step = self._step

    def after_validation(self, training: RankerTraining) -> None:
        self._report(training, bool(training.position))  # a validation within the epoch counts it too
        self._save_when_due()

    def after_step(self, training: RankerTraining) -> None:
        if self.clock.report.due():
            batch, batches = math.ceil(training.position / training.batch_size), training.steps_per_epoch
            left = self.clock.left(self._step, self._max_epochs * batches)
            self._report(training, 0, batch, batches, left)
            self.leave(self._save)
        # Several workers save states only between epochs, when none of them is a step ahead.
        if self.config["resources"]["workers"] == 1:
            self._save_when_due()

    @property
    def _step(self) -> int:
        return self.staged.steps + self.staged.training.step

    @property
    def _max_epochs(self) -> int:
        return self.staged.training.max_epochs * len(self.staged.stages)

    def _report(self, training: RankerTraining, begun: int, *within: Any) -> None:
        """Report the progress, with `begun` epochs more, and between two validations with batch, batches and left."""
        last = training.running_loss, training.validations[-1] if training.validations else math.nan
        epochs = self.staged.epochs + training.epoch + begun
        self.on_progress(Progress(self.fold, self.folds, epochs, self._max_epochs, *last, *within))

    def _save(self) -> None:
        if self.store:
            self.saved_step = self._step
            _save(self.store, self.outcome, self.staged.state_dict(), self.clock.seconds)

    def _save_when_due(self) -> None:
        batches = self.config["save_every_batches"]
        due = self.clock.save.due() or (batches is not None and self._step - self.saved_step >= batches)
        if due:
            self._save()


def _save(store: StateStore, outcome: Outcome, staged: Any, seconds: float) -> None:
    save_state(store, {"outcome": vars(outcome), "staged": staged, "seconds": seconds})
