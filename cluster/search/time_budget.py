"""Keeps the runs of a study from starting once its time is over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from pyrite.cluster.config.durations import seconds_of


class TimeBudget:
    """The time of a study, which starts when this is built. Runs that have started by its end are completed.

    Args:
        budget: see `pyrite.cluster.config.durations.seconds_of`; None sets no limit.
        finished: returns whether the user's stoppers have ended the study; None if there are none.
        now: a clock.
    """

    def __init__(
        self,
        budget: str | float | None,
        finished: Callable[[], bool] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._until = now, math.inf if budget is None else now() + seconds_of(budget, "time_budget")
        self._finished = finished or (lambda: False)
        self.over = False
        """Whether a run was kept from starting."""

    def spent(self) -> bool:
        """Return whether no further run may start."""
        self.over = self.over or self._finished() or self._now() >= self._until
        return self.over
