"""Decides when an agent has converged: it gains no more, and its choices have settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ranking.errors import BadInput

Episode = Mapping[str, Any]


@dataclass(frozen=True)
class Plateau:
    """Two stretches of `window` episodes, one after the other, that are alike.

    They are compared whenever another `window` episodes have ended, so that what is found depends on the episodes alone
    and not on how they were shared out or interrupted. A plateau says that learning has come to rest, and not that
    anything was learned: an agent that never gained is at rest too. Cohen et al. 2019 (section 5) take an agent as
    converged by the performance on validation queries, without saying by what test.

    Args:
        window: episodes of a stretch.
        by: `validation` or `return`.
        errors: the later stretch gains where its mean is above the earlier one's by more than so many standard errors
            of the difference, √(s₁²/n + s₂²/n).
        settled: largest mean absolute change of the shares of the functions.

    Raises:
        BadInput: where an option is out of its range.
    """

    window: int = 16
    by: Literal["validation", "return"] = "validation"
    errors: float = 1.0
    settled: float = 0.1

    def __post_init__(self) -> None:
        if self.window < 2:
            raise BadInput(f"{self.window} episodes have no deviation", "until.window", "give 2 or more")
        if self.by not in ("validation", "return"):
            raise BadInput(f"{self.by!r} is no figure of an episode", "until.by", "give validation or return")
        if self.errors < 0 or self.settled < 0:
            raise BadInput("a bound is below 0", "until", "give until.errors and until.settled from 0")

    def converged_at(self, episodes: Sequence[Episode]) -> int | None:
        """The number of episodes after which the criterion first held; None where it never did.

        Args:
            episodes: of the agent, in the order in which they ended, each with `by` and `share:FUNCTION`.
        """
        for end in range(2 * self.window, len(episodes) + 1, self.window):
            middle = end - self.window
            if self._alike(episodes[middle - self.window : middle], episodes[middle:end]):
                return end
        return None

    def _alike(self, earlier: Sequence[Episode], later: Sequence[Episode]) -> bool:
        before, after = (np.array([float(each[self.by]) for each in part]) for part in (earlier, later))
        error = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / self.window)
        if after.mean() - before.mean() > self.errors * error:
            return False
        names = sorted({key for each in (*earlier, *later) for key in each if key.startswith("share:")})
        was, now = (np.array([[each.get(name, 0.0) for name in names] for each in part]) for part in (earlier, later))
        return not names or float(np.abs(now.mean(axis=0) - was.mean(axis=0)).mean()) <= self.settled
