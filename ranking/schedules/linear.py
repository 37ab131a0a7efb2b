"""Defines the schedule that lowers the learning rate linearly."""

from __future__ import annotations

from ranking.schedules.schedule import Schedule


class Linear(Schedule):
    """A linear fall to 0 at the last step, as BERT was trained (Devlin et al. 2019, appendix A.2)."""

    def after_warmup(self, done: float) -> float:
        return 1 - done
