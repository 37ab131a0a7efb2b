"""Reports the progress of a learning: a line on the screen, trackers and the event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pyrite.cluster.output.episodes import LEARNED, RANDOM, numbers, recent, table
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts.train_agent import LearningProgress
from pyrite.cluster.telemetry.tracking.tracker import TrackedRun
from pyrite.cluster.telemetry.tracking.tracking import Tracking

LINES = 10
"""Number of lines that a learning prints if the console is not a terminal."""


class LiveLine:
    """A line with episodes, return and final measure next to the random agent's, shares of actions, and time left.

    Args:
        wanted: episodes to learn.
    """

    def __init__(self, console: Console, measure: str, wanted: int) -> None:
        self.console, self.measure, self.printed = console, measure, 0
        columns = MofNCompleteColumn(), TextColumn("episodes   {task.description}"), TimeRemainingColumn()
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.line = self.bar.add_task("starting …", total=wanted)

    def update(self, progress: LearningProgress) -> None:
        """Show the progress."""
        self.bar.update(self.line, completed=progress.episodes, description=self.text(progress))
        tenth = progress.episodes * LINES // progress.wanted
        if tenth > self.printed and not self.console.is_terminal:
            self.console.print(
                f"{min(progress.episodes, progress.wanted)}/{progress.wanted} episodes   {self.text(progress)}",
                soft_wrap=True,
                markup=False,
            )
        self.printed = max(self.printed, tenth)

    def text(self, progress: LearningProgress) -> str:
        """Return the means of the last episodes."""
        episodes = table(progress.rows)
        learned, random = recent(episodes, LEARNED), recent(episodes, RANDOM, 1 << 30)
        if not learned:
            return f"{len(progress.rows)} of the random agent"
        parts = []
        for key, name, form in (("return", "return", ".3f"), ("validation", self.measure, ".4f")):
            beside = f" (random agent {random[key]:{form}})" if random else ""
            parts.append(f"{name} {learned[key]:{form}}{beside}")
        parts += [f"{key[6:]} {value:.0%}" for key, value in learned.items() if key.startswith("share:")]
        return "   ".join(parts)


class TrackedEpisodes:
    """Sends finished episodes to trackers and the event log, each once and in order."""

    def __init__(self, tracking: Tracking, run: TrackedRun) -> None:
        self.tracking, self.name = tracking, run.name
        self._sent = 0
        self._throttle = Throttle(10.0)
        tracking.begin(run)

    def update(self, progress: LearningProgress) -> None:
        """Send new episodes, and RLlib's metrics with the last. Episodes that a loss repeats are not sent again."""
        self._send(progress.rows, progress.metrics)
        if self._throttle.due():
            self.tracking.events.emit("episodes ended", episodes=progress.episodes, wanted=progress.wanted)

    def end(self, episodes: pl.DataFrame) -> None:
        """Send the episodes that no progress reported, and the means of the agent's last and of the random agent's."""
        self._send(episodes.to_dicts(), {})
        means = {"recent": recent(episodes, LEARNED), "random": recent(episodes, RANDOM, 1 << 30)}
        final = {f"{which}/mean/{key}": value for which, mean in means.items() for key, value in numbers(mean).items()}
        self.tracking.events.emit("agent learned", episodes=episodes.height, numbers=final)
        self.tracking.end(self.name, "done", final)

    def _send(self, rows: Sequence[Mapping[str, Any]], of_last: Mapping[str, float]) -> None:
        """Send the episodes that are new, and further numbers with the last."""
        for step, row in enumerate(rows[self._sent :], self._sent + 1):
            own = {f"{row['agent']}/{key}": value for key, value in numbers(row).items()}
            self.tracking.log(self.name, step, {**own, **(of_last if step == len(rows) else {})})
        self._sent = max(self._sent, len(rows))
