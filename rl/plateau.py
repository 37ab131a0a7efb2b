"""Decides when an agent has converged: its return has stopped rising, and its choices have settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from ranking.bounds import AtLeast, NonNegative, checked

Episode = Mapping[str, Any]


@checked
@dataclass(frozen=True)
class Plateau:
    """Two successive groups of `window` episodes that are alike.

    They are compared whenever another `window` episodes have ended, so the result depends on the episodes only, and not
    on how they were distributed or interrupted. A plateau means that learning has stopped changing, and not that
    anything was learned: an agent that never improved is on a plateau too. Cohen et al. 2019 (section 5) decide
    convergence by the performance on validation queries, without naming a test.

    Args:
        window: episodes per group.
        by: `validation` or `return`.
        errors: the later group counts as better if its mean exceeds the earlier one's by more than this many standard
            errors of the difference, √(s₁²/n + s₂²/n).
        settled: largest mean absolute change of the functions' shares.

    Raises:
        BadInput: if an option is out of its range.
    """

    window: Annotated[int, AtLeast(2)] = 16
    by: Literal["validation", "return"] = "validation"
    errors: Annotated[float, NonNegative] = 1.0
    settled: Annotated[float, NonNegative] = 0.1

    def converged_at(self, episodes: Sequence[Episode]) -> int | None:
        """Return the number of episodes after which the criterion first held; None if it never did.

        Args:
            episodes: the agent's episodes, in the order in which they ended, each with `by` and `share:FUNCTION`.
        """
        for end in range(2 * self.window, len(episodes) + 1, self.window):
            middle = end - self.window
            if self._alike(episodes[middle - self.window : middle], episodes[middle:end]):
                return end
        return None

    def _alike(self, earlier: Sequence[Episode], later: Sequence[Episode]) -> bool:
        before, after = (np.array([float(episode[self.by]) for episode in part]) for part in (earlier, later))
        error = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / self.window)
        if after.mean() - before.mean() > self.errors * error:
            return False
        names = sorted({key for episode in (*earlier, *later) for key in episode if key.startswith("share:")})
        was, now = (
            np.array([[episode.get(name, 0.0) for name in names] for episode in part]) for part in (earlier, later)
        )
        return not names or float(np.abs(now.mean(axis=0) - was.mean(axis=0)).mean()) <= self.settled
