"""Starts no further runs once a study's time is over."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from ranking.errors import BadInput

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def seconds_of(text: str | float) -> float:
    """Return the seconds of a time such as `2h`, `1h30m` or `90s`, or of a number of seconds.

    Raises:
        BadInput: if it is no time.
    """
    if not isinstance(text, str):
        seconds = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[dhms])+", text):
        seconds = sum(float(number) * UNITS[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)([dhms])", text))
    else:
        seconds = 0.0
    if seconds <= 0:
        raise BadInput(f"time_budget is {text!r}", remedy="write 2h, 30m, 1h30m or 90s")
    return seconds


class TimeBudget:
    """The time of a study, which starts when this is built. Runs that have started by its end are completed.

    Args:
        budget: see `seconds_of`; None sets no limit.
        finished: returns whether the user's stoppers have ended the study; None if there are none.
        now: a clock.
    """

    def __init__(
        self,
        budget: str | float | None,
        finished: Callable[[], bool] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._until = now, None if budget is None else now() + seconds_of(budget)
        self._finished = finished or (lambda: False)
        self.over = False
        """Whether a run was kept from starting."""

    def spent(self) -> bool:
        """Return whether no further run may start."""
        self.over = self.over or self._finished() or (self._until is not None and self._now() >= self._until)
        return self.over
