"""Defines learning-rate schedules: constant, linear and along a cosine, after a warm-up."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated

from pyrite.ranking.bounds import NonNegative, checked


class RateSchedule(ABC):
    """The base of learning-rate schedules: the share of the learning rate that each step uses.

    The rate rises linearly during the warm-up, and then follows `after_warmup`.

    Args:
        warmup: the number of warm-up steps; below 1 a share of all steps, e.g. 0.1.
    """

    @checked
    def __init__(self, warmup: Annotated[float, NonNegative] = 0) -> None:
        self.warmup = warmup

    def factor(self, step: int, steps: int) -> float:
        """Return the share of the learning rate at a step.

        Args:
            step: the step, from 0.
            steps: the steps of all epochs. Early stopping may end the training before.
        """
        rising = round(self.warmup * steps) if self.warmup < 1 else int(self.warmup)
        if step < rising:
            return (step + 1) / (rising + 1)
        return self.after_warmup(min((step - rising) / max(steps - rising, 1), 1.0))

    @abstractmethod
    def after_warmup(self, done: float) -> float:
        """Return the share after `done` (0 to 1) of the steps that follow the warm-up."""


class Constant(RateSchedule):
    """The full learning rate from the end of the warm-up."""

    def after_warmup(self, done: float) -> float:
        return 1.0


class Linear(RateSchedule):
    """A linear fall to 0 at the last step, as BERT was trained (Devlin et al. 2019, appendix A.2)."""

    def after_warmup(self, done: float) -> float:
        return 1 - done


class Cosine(RateSchedule):
    """Half a cosine down to 0 at the last step (Loshchilov and Hutter 2017, equation 5, without restarts)."""

    def after_warmup(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
