"""Executes one run: trains a ranker with one way of choosing negatives, and measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch

from cluster.runs.assemble import assemble
from cluster.runs.measure import measure
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Clock, Progress, between
from cluster.telemetry.training_metrics import watched
from ranking.checkpoint import from_bytes, to_bytes
from ranking.splits import Split
from ranking.training import RankerTraining
from sampling.sampler import Sampler
from sampling.staged_training import StagedTraining


class StateStore(Protocol):
    """Where a run keeps its state, to go on after an interrupt."""

    def load(self) -> bytes | None:
        """The last state, None at the start."""

    def save(self, state: bytes) -> None:
        """Keep the state whole."""


@runtime_checkable
class ForkStore(Protocol):
    """Where a run that is alone in its process keeps states for forks besides."""

    def keep_at(self, step: int, state: bytes) -> None:
        """Keep what training and sampler were before a batch."""


Attach = Callable[[RankerTraining, Sampler], AbstractContextManager[object]]
"""Connects a fresh training and its sampler to what runs outside this process, until the context ends."""


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
            clock = Clock(state["seconds"] if state else 0.0)
            state = None

            def keep(training: Any = None, staged: StagedTraining = staged, clock: Clock = clock) -> None:
                if store and clock.due(save_every):
                    _keep(store, outcome, staged.state_dict(), clock.seconds)

            def keep_for_forks(training: RankerTraining, staged: StagedTraining = staged, fold: int = fold) -> None:
                first = fold == staged.stage == 0  # as a fork has it
                if first and training.step in config["keep_at"] and isinstance(store, ForkStore):
                    store.keep_at(training.step, to_bytes([training.state_dict(), staged.sampler.state_dict()]))

            def after_epoch(
                training: RankerTraining, fold: int = fold, staged: StagedTraining = staged, keep: Any = keep
            ) -> None:
                last = (training.losses[-1], training.validations[-1])
                epochs, limit = staged.epochs + training.epoch, training.max_epochs * len(staged.stages)
                epochs += bool(training.position)  # it was validated within the epoch
                on_epoch(Progress(fold, len(splits), epochs, limit, *last))
                keep_for_forks(training)
                keep()

            def after_step(
                training: RankerTraining,
                fold: int = fold,
                staged: StagedTraining = staged,
                clock: Clock = clock,
                keep: Any = keep,
            ) -> None:
                if clock.time_to_tell():
                    on_batch(between(fold, len(splits), staged, clock))
                keep_for_forks(training)
                # Several workers keep states between epochs alone, where none of them is a step ahead.
                if config["resources"]["workers"] == 1:
                    keep()

            with watched(staged, watch, config["validation"]["measure"]):
                clock.left(staged.steps + staged.training.step, 0)
                staged.fit(after_epoch, after_step)
        outcome.seconds += clock.seconds
        measure(config, parts, fold, staged, outcome)
        if store and fold + 1 < len(splits):
            _keep(store, outcome, None, 0.0)
    return outcome


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


def _keep(store: StateStore, outcome: Outcome, staged: Any, seconds: float) -> None:
    state = {"outcome": vars(outcome), "staged": staged, "seconds": seconds}
    store.save(to_bytes(state))
