"""Holds where the scheduler of a search has stopped a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """A run that was behind the others of its search: it has no result, and is neither failed nor done.

    Args:
        at: epochs that it had come to.
        curve: its validation by epoch until then.
        made_of: a digest of what it was made of; none of a run of this very command.
    """

    at: int
    curve: tuple[float, ...]
    made_of: str = ""

    @property
    def best(self) -> float:
        """What a search takes for its result."""
        return max(self.curve)
