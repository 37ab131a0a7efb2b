"""Measures the progress of a run, and estimates the time that is left."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.output.throttle import Throttle

if TYPE_CHECKING:
    from sampling.staged_training import StagedTraining


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a validation, or between two.

    Args:
        fold: number of the fold, from 0.
        epoch: number of finished epochs, including the current one after its first validation.
        max_epochs: maximum number of epochs.
        loss: mean loss since the last validation.
        validation: the last validation value; nan before the first.
        batch: number of the batch in the epoch; 0 after a validation.
        batches: number of batches in an epoch; 0 after a validation.
        left: seconds to the end of the last epoch at the present speed, or None if unknown. Early stopping may end the
            run before.
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
"""Seconds between two reports within an epoch, and before the first estimate of the time left."""


class Clock:
    """The seconds of training, including those before interrupts.

    Args:
        before: seconds before interrupts.
        save_every: seconds between two saved states.

    Attributes:
        save: is due when the state should be saved.
        report: is due when progress should be reported, between two validations.
    """

    def __init__(self, before: float, save_every: float) -> None:
        self.before, self.started = before, time.perf_counter()
        self.save, self.report = Throttle(save_every), Throttle(PROGRESS_EVERY_S)
        self.save.due()  # not before the first interval has passed
        self.report.due()
        self.first: int | None = None

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def left(self, done: int, steps: int) -> float | None:
        """Return the seconds for the other steps at the speed of this process.

        Args:
            done: number of finished steps, including those before an interrupt.
        """
        if self.first is None:
            self.first = done
        count = done - self.first
        return (time.perf_counter() - self.started) / count * (steps - done) if count > 0 else None


def between(fold: int, folds: int, staged: StagedTraining, clock: Clock) -> Progress:
    """Return the progress between two validations."""
    training = staged.training
    limit, batches = training.max_epochs * len(staged.stages), training.steps_per_epoch
    left = clock.left(staged.steps + training.step, limit * batches)
    batch = math.ceil(training.position / training.batch_size)
    validation = training.validations[-1] if training.validations else math.nan
    epochs = staged.epochs + training.epoch
    return Progress(fold, folds, epochs, limit, training.running_loss, validation, batch, batches, left)
