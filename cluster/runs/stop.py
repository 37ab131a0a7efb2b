"""Holds the end of a run that the scheduler of a search has stopped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """A run that was behind the others of its search: it has no result, and is neither failed nor done.

    Args:
        at: epochs before the stop.
        curve: validation by epoch until then.
        made_of: digest of the data and code of the run; empty for a run of this command.
    """

    at: int
    curve: tuple[float, ...]
    made_of: str = ""

    @property
    def best(self) -> float:
        """The value that a search takes for its result."""
        return max(self.curve)
