"""Measures the progress of a run, and estimates the time that is left."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyrite.cluster.limits import PROGRESS_EVERY_S
from pyrite.cluster.output.throttle import Throttle


@dataclass(frozen=True)
class Progress:
    """The progress of a run after a validation, or between two.

    Args:
        fold: number of the fold, from 0.
        epoch: number of finished epochs, including the current one after its first validation.
        loss: mean loss since the last validation.
        validation: the last validation value; nan before the first.
        batch, batches: number of the batch in the epoch, and of all its batches; 0 after a validation.
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


class Clock:
    """The processor seconds of training, which other programs on the machine hardly change. `save` and `report` are due
    when the state is saved or progress is reported.

    Args:
        before, done: seconds and steps before interrupts.
        save_every: seconds between two saved states.
    """

    def __init__(self, before: float, done: int, save_every: float) -> None:
        self.before, self.done = before, done
        self.started, self.processor = time.perf_counter(), time.process_time()
        self.save, self.report = Throttle(save_every), Throttle(PROGRESS_EVERY_S)
        self.save.due()  # not before the first interval has passed
        self.report.due()

    @property
    def seconds(self) -> float:
        return self.before + time.process_time() - self.processor

    def left(self, done: int, steps: int) -> float | None:
        """Return the seconds for the other steps at the speed of this process."""
        count = done - self.done
        return (time.perf_counter() - self.started) / count * (steps - done) if count > 0 else None
