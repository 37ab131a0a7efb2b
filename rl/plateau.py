"""Decides when an agent has converged: its return has stopped rising, and its choices have settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy import stats

from pyrite.ranking.bounds import AtLeast, Between, NonNegative, checked
from pyrite.ranking.errors import refuse

Episode = Mapping[str, Any]


@checked
@dataclass(frozen=True)
class Plateau:
    """Two successive groups of `window` episodes that are alike.

    They are compared whenever another `window` episodes have ended, so the result depends on the episodes only, and not
    on how they were distributed or interrupted. A plateau means that learning has stopped changing, and not that
    anything was learned: an agent that never improved is on a plateau too. Cohen et al. 2019 (section 5) decide
    convergence by the performance on validation queries, without naming a test. A look at a few noisy episodes stops
    most agents that would still gain, so `after` sets how many episodes each agent has, and `gain` lets an agent
    continue until it is better than the random one.

    Args:
        after: episodes before the first comparison.
        gain: p below which a one-sided Welch test of the last group against the random agent's episodes shows a gain;
            an agent without one has not converged. None makes no such test.
        window: episodes per group.
        by: `validation` or `return`.
        errors: the later group counts as better if its mean exceeds the earlier one's by more than this many standard
            errors of the difference, √(s₁²/n + s₂²/n).
        settled: largest mean absolute change of the functions' shares.
    """

    after: Annotated[int, NonNegative] = 0
    gain: Annotated[float, Between(0, 1, exclude="both")] | None = None
    window: Annotated[int, AtLeast(2)] = 16
    by: Literal["validation", "return"] = "validation"
    errors: Annotated[float, NonNegative] = 1.0
    settled: Annotated[float, NonNegative] = 0.1

    @property
    def first(self) -> int:
        """The number of episodes after which two groups are compared for the first time."""
        return self.window * max(2, -(-self.after // self.window))

    def check_random(self, episodes: int) -> None:
        """Raise `BadInput` if `gain` needs more episodes of the random agent."""
        what = f"it is tested against two or more episodes of the random agent, and there are {episodes}"
        refuse(self.gain is not None and episodes < 2, what, "until.gain", "give random_baseline=16")

    def converged_at(self, episodes: Sequence[Episode], random: Sequence[Episode] = ()) -> int | None:
        """Return the number of episodes after which the criterion first held; None if it never did.

        The episodes are in the order in which they ended, and have `by` and `share:FUNCTION`.

        Raises:
            BadInput: if `gain` is given without two episodes of the random agent.
        """
        self.check_random(len(random))
        for end in range(self.first, len(episodes) + 1, self.window):
            middle = end - self.window
            earlier, later = episodes[middle - self.window : middle], episodes[middle:end]
            if self._alike(earlier, later) and self._gained(later, random):
                return end
        return None

    def _gained(self, later: Sequence[Episode], random: Sequence[Episode]) -> bool:
        if self.gain is None:
            return True
        ours, theirs = ([float(episode[self.by]) for episode in part] for part in (later, random))
        return float(stats.ttest_ind(ours, theirs, equal_var=False, alternative="greater").pvalue) < self.gain

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
