"""Hands out no further runs once a study's time is over."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from cluster.tune.run_source import FINISHED, RunSource
from cluster.tune.search_scheduler import SearchScheduler
from ranking.errors import BadInput

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def seconds_of(text: str | float) -> float:
    """A time as people write it, `2h`, `1h30m`, `90s`, or a number of seconds.

    Raises:
        BadInput: where it is none.
    """
    if not isinstance(text, str):
        found = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[dhms])+", text):
        found = sum(float(number) * UNITS[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)([dhms])", text))
    else:
        found = 0.0
    if found <= 0:
        raise BadInput(f"time_budget is {text!r}", remedy="write 2h, 30m, 1h30m or 90s")
    return found


class TimeBudget:
    """The time of a study, from now on. Runs that are under way when it ends come to their ends.

    Args:
        budget: as `seconds_of` has it; None: there is no limit.
        now: a clock.
    """

    def __init__(self, budget: str | float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._until = now, None if budget is None else now() + seconds_of(budget)
        self.over = False
        """Whether a run was kept back."""

    def limit(self, source: RunSource, scheduler: SearchScheduler | None = None) -> RunSource:
        """The same source, until the time is over, or a stopper has ended the search."""
        limited = self._until is not None or (scheduler is not None and scheduler.stoppers)
        return _Limited(source, self, scheduler) if limited else source

    def left(self) -> bool:
        """Whether a run may still begin."""
        return self._until is None or self._now() < self._until


class _Limited(RunSource):
    def __init__(self, source: RunSource, budget: TimeBudget, scheduler: SearchScheduler | None) -> None:
        self.source, self.budget, self.scheduler = source, budget, scheduler

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self.budget.left() and not (self.scheduler and self.scheduler.finished):
            return self.source.suggest(trial_id)
        self.budget.over = True
        return FINISHED

    def on_trial_complete(self, trial_id: str) -> None:
        self.source.on_trial_complete(trial_id)
