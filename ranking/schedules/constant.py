"""Defines the schedule that keeps the learning rate as it is."""

from __future__ import annotations

from ranking.schedules.schedule import Schedule


class Constant(Schedule):
    """The full learning rate from the end of the warm-up."""

    def after_warmup(self, done: float) -> float:
        return 1.0
