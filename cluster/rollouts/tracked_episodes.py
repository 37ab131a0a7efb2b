"""Reports the episodes of a learning to trackers and the event log."""

from __future__ import annotations

import polars as pl

from cluster.output.episodes import LEARNED, RANDOM, numbers, recent
from cluster.output.throttle import Throttle
from cluster.rollouts.trainer import Progress
from cluster.telemetry.tracking.tracker import Run
from cluster.telemetry.tracking.tracking import Tracking


class TrackedEpisodes:
    """Tells trackers and the log of the episodes that have ended, each once, in their order.

    Args:
        tracking: of the learning.
        run: the learning, as trackers call it.
        every: seconds between two lines of the log.
    """

    def __init__(self, tracking: Tracking, run: Run, every: float = 10.0) -> None:
        self.tracking, self.name = tracking, run.name
        self._known = 0
        self._throttle = Throttle(every)
        tracking.begin(run)

    def tell(self, progress: Progress) -> None:
        """Pass on what is new. After a loss episodes are repeated, which are known."""
        for step, row in enumerate(progress.rows[self._known :], self._known + 1):
            self.tracking.log(self.name, step, {f"{row['agent']}/{key}": value for key, value in numbers(row).items()})
        self._known = max(self._known, len(progress.rows))
        if self._throttle.due():
            self.tracking.events.emit("episodes ended", episodes=progress.episodes, wanted=progress.wanted)

    def end(self, episodes: pl.DataFrame) -> None:
        """The agent has learned: tell the means of its last episodes, and of the random agent's."""
        means = {"recent": recent(episodes, LEARNED), "random": recent(episodes, RANDOM, 1 << 30)}
        final = {f"{which}/mean/{key}": value for which, mean in means.items() for key, value in numbers(mean).items()}
        self.tracking.events.emit("agent learned", episodes=episodes.height, numbers=final)
        self.tracking.end(self.name, "done", final)
