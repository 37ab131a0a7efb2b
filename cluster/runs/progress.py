"""Says where a run is, and how long it still takes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sampling.staged_training import StagedTraining


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


PROGRESS_EVERY_S = 5.0
"""Seconds between two words of progress within an epoch: the first estimate of the time left comes after so many."""


class Clock:
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
        if now - self.told < PROGRESS_EVERY_S:
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


def between(fold: int, folds: int, staged: StagedTraining, clock: Clock) -> Progress:
    """Progress between two validations."""
    training = staged.training
    limit, batches = training.max_epochs * len(staged.stages), training.steps_per_epoch
    left = clock.left(staged.steps + training.step, limit * batches)
    batch = math.ceil(training.position / training.batch_size)
    validation = training.validations[-1] if training.validations else math.nan
    epochs = staged.epochs + training.epoch
    return Progress(fold, folds, epochs, limit, training.running_loss, validation, batch, batches, left)
