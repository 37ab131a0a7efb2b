"""Executes one run: trains a ranker with one way of choosing negatives, and evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from cluster.output.result_store import SavedState
from cluster.runs.assemble import assemble
from cluster.runs.measure import PeakMemory, measure
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Clock, Progress, between
from cluster.runs.states import Share, StateStore
from cluster.telemetry.training_metrics import watched
from ranking.checkpoint import to_bytes
from ranking.errors import BadInput
from ranking.splits import Split
from ranking.training import RankerTraining
from sampling.sampler import Sampler
from sampling.staged_training import StagedTraining

Attach = Callable[[RankerTraining, Sampler], AbstractContextManager[object]]
"""Connects a new training and its sampler to other processes, until the context ends."""


OnProgress = Callable[[Progress], None]
Leave = Callable[[Callable[[], None]], None]
"""Called every few seconds between two batches, with a function that saves the state. If the run must continue
elsewhere, it saves the state and raises (`cluster.executors.lost_process.leave`)."""


def stay(keep: Callable[[], None]) -> None:
    """Never leave: the `Leave` of a run that nothing would start elsewhere."""


def run(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_epoch: OnProgress = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
    attach: Attach = lambda training, sampler: nullcontext(),
    watch: Mapping[str, str] | None = None,
    on_batch: OnProgress = lambda progress: None,
    leave: Leave = stay,
) -> Outcome:
    """Train and evaluate one ranker, in this process.

    The result depends on the configuration alone, to the last bit on a CPU and whatever the interrupts.

    Args:
        on_epoch: called with the progress after each validation.
        save_every: seconds between two saved states.
        attach: connects a new training to index actors and other workers, until the returned context ends
            (`cluster.training.attach`).
        on_batch: called with the progress within an epoch, every few seconds.
        watch: tags of its metrics (`cluster.telemetry.training_metrics.run_tags`); None records no metrics.
        leave: see `Leave`. What it raises ends the run.
    """
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    share, peak = Share.of(config), PeakMemory()
    state = share.load(store) if store else None
    outcome = Outcome(**state["outcome"]) if state else Outcome()
    splits: list[Split] = parts["base"].splits
    for fold in range(len(outcome.losses), len(splits)):
        with ExitStack() as started:
            staged = StagedTraining(partial(_attached, config, parts, fold, started, attach))
            if state and state["staged"] is not None:  # None: it was saved between two folds
                staged.load_state_dict(state["staged"])
            clock = Clock(state["seconds"] if state else 0.0, save_every)
            fold_run = _FoldRun(config, fold, len(splits), staged, clock, store, share, outcome, leave)
            fold_run.fit(on_epoch, on_batch, watch)
            state = None
        outcome.seconds += clock.seconds
        outcome.memory = max(filter(None, (outcome.memory, peak.mib())), default=None)
        _measure(config, parts, fold, staged, outcome)
        if store and fold + 1 < len(splits):
            _save(store, share, outcome, None, 0.0)
    return outcome


def _measure(
    config: dict[str, Any], parts: dict[str, Any], fold: int, staged: StagedTraining, outcome: Outcome
) -> None:
    """Measure a finished fold.

    Raises:
        BadInput: if the training diverged and left no weights to measure.
    """
    try:
        measure(config, parts, fold, staged, outcome)
    except FloatingPointError:
        training, rate = staged.training, config["optimizer"].get("lr")
        if not training.diverged:
            raise
        what = f"training diverged in epoch {training.epoch + bool(training.position)} (scores are not numbers)"
        remedy = "lower the learning rate" if rate is None else f"lower optimizer.lr (now {rate:g})"
        raise BadInput(what, remedy=remedy) from None


@dataclass
class _FoldRun:
    """One fold of a run, which saves its state and reports its progress; `outcome` is that of the folds before."""

    config: dict[str, Any]
    fold: int
    folds: int
    staged: StagedTraining
    clock: Clock
    store: StateStore | None
    share: Share
    outcome: Outcome
    leave: Leave

    def __post_init__(self) -> None:
        self.saved_step = self._step

    def fit(self, on_epoch: OnProgress, on_batch: OnProgress, watch: Mapping[str, str] | None) -> None:
        def after_epoch(training: RankerTraining) -> None:
            last = (training.losses[-1], training.validations[-1])
            epochs, limit = self.staged.epochs + training.epoch, training.max_epochs * len(self.staged.stages)
            epochs += bool(training.position)  # a validation within the epoch counts it too
            on_epoch(Progress(self.fold, self.folds, epochs, limit, *last))
            self._save_for_forks(training)
            self._save_when_due()

        def after_step(training: RankerTraining) -> None:
            if self.clock.report.due():
                on_batch(between(self.fold, self.folds, self.staged, self.clock))
                self.leave(self._save)
            self._save_for_forks(training)
            # Several workers save states only between epochs, when none of them is a step ahead.
            if self.config["resources"]["workers"] == 1:
                self._save_when_due()

        with watched(self.staged, watch, self.config["validation"]["measure"]):
            self.clock.left(self._step, 0)
            for training in self.staged.trainings():
                training.fit(self.staged.sampler, after_epoch, after_step)

    @property
    def _step(self) -> int:
        return self.staged.steps + self.staged.training.step

    def _save(self) -> None:
        if self.store:
            self.saved_step = self._step
            _save(self.store, self.share, self.outcome, self.staged.state_dict(), self.clock.seconds)

    def _save_when_due(self) -> None:
        batches = self.config["save_every_batches"]
        due = self.clock.save.due() or (batches is not None and self._step - self.saved_step >= batches)
        if self.store and self.share.broadcast_from_first(due):
            self._save()

    def _save_for_forks(self, training: RankerTraining) -> None:
        first = self.fold == self.staged.stage == 0  # the only ones that forks continue
        if first and training.step in self.config["keep_at"] and isinstance(self.store, SavedState):
            state = [training.state_dict(), self.staged.sampler.state_dict()]
            self.store.keep_at(training.step, to_bytes(state))


def _attached(
    config: dict[str, Any], parts: dict[str, Any], fold: int, started: ExitStack, attach: Attach
) -> tuple[RankerTraining, Sampler]:
    """Call `assemble`, and attach the result to other processes until `started` ends."""
    training, sampler = assemble(config, parts, fold)
    started.enter_context(attach(training, sampler))
    return training, sampler


def _save(store: StateStore, share: Share, outcome: Outcome, staged: Any, seconds: float) -> None:
    share.save(store, {"outcome": vars(outcome), "staged": staged, "seconds": seconds})
