"""Defines the base of every learning-rate schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ranking.errors import BadInput


class Schedule(ABC):
    """What share of its learning rate the optimizer takes at each step.

    The rate rises in a line over the warm-up, and then goes as `after_warmup` says.

    Args:
        warmup: steps of the warm-up; below 1 a share of all steps, e.g. 0.1.

    Raises:
        BadInput: where the warm-up is below 0.
    """

    def __init__(self, warmup: int | float = 0) -> None:
        if warmup < 0:
            raise BadInput(f"warmup is {warmup}", "scheduler.warmup", "choose steps, or a share of all below 1")
        self.warmup = warmup

    def factor(self, step: int, steps: int) -> float:
        """The share of the learning rate at a step.

        Args:
            step: from 0 up.
            steps: that a training of all its epochs makes; early stopping may end it before.
        """
        rising = round(self.warmup * steps) if self.warmup < 1 else int(self.warmup)
        if step < rising:
            return (step + 1) / (rising + 1)
        return self.after_warmup(min((step - rising) / max(steps - rising, 1), 1.0))

    @abstractmethod
    def after_warmup(self, done: float) -> float:
        """The share where so much (0 to 1) of the steps after the warm-up is done."""
