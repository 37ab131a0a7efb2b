"""Defines the schedule that lowers the learning rate along a cosine."""

from __future__ import annotations

import math

from ranking.schedules.schedule import Schedule


class Cosine(Schedule):
    """Half a cosine down to 0 at the last step (Loshchilov and Hutter 2017, equation 5, without restarts)."""

    def after_warmup(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
