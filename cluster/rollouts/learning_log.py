"""Reports the progress of a learning: a line on the screen, trackers and the event log."""

from __future__ import annotations

import time
from typing import Any

import polars as pl
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pyrite.cluster.output.episodes import LEARNED, RANDOM, numbers, recent, table
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts.train_agent import LearningProgress
from pyrite.cluster.telemetry.live_table import duration
from pyrite.cluster.telemetry.tracking.tracker import TrackedRun
from pyrite.cluster.telemetry.tracking.tracking import Tracking

LINES = 10
"""Number of lines that a learning prints if the console is not a terminal."""


class LiveLine:
    """A line with episodes, return and final measure next to the random agent's, shares of actions, and time left."""

    def __init__(self, console: Console, measure: str) -> None:
        self.console, self.measure = console, measure
        self.started: float | None = None
        self.before = self.printed = 0
        self.line = Text("starting …")
        self._live = Live(get_renderable=lambda: self.line, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> LiveLine:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._live.stop()

    def update(self, progress: LearningProgress) -> None:
        """Show the progress."""
        if self.started is None:
            self.started, self.before = time.monotonic(), progress.episodes
            self.printed = progress.episodes * LINES // progress.wanted
        self.line = Text(self.text(progress))
        tenth = progress.episodes * LINES // progress.wanted
        if tenth > self.printed and not self.console.is_terminal:
            self.printed = tenth
            self.console.print(self.line, soft_wrap=True)

    def text(self, progress: LearningProgress) -> str:
        """Return the line."""
        episodes = table(progress.rows)
        learned, random = recent(episodes, LEARNED), recent(episodes, RANDOM, 1 << 30)
        parts = [f"{min(progress.episodes, progress.wanted)}/{progress.wanted} episodes"]
        if not learned:
            parts.append(f"{len(progress.rows)} of the random agent")
        if learned:
            parts.append(f"return {learned['return']:.3f}" + _comparison(random, "return", ".3f"))
            parts.append(f"{self.measure} {learned['validation']:.4f}" + _comparison(random, "validation", ".4f"))
            shares = {name: value for name, value in learned.items() if name.startswith("share:")}
            parts += [f"{name.removeprefix('share:')} {value:.0%}" for name, value in shares.items()]
        if progress.losses:
            parts.append(f"went back {progress.losses} times" if progress.losses > 1 else "went back once")
        ran = progress.episodes - self.before
        if ran and self.started is not None:
            left = (time.monotonic() - self.started) / ran * max(progress.wanted - progress.episodes, 0)
            parts.append(f"about {duration(left)} left")
        return "   ".join(parts)


def _comparison(random: dict[str, Any], name: str, form: str) -> str:
    return f" (random agent {random[name]:{form}})" if random else ""


class TrackedEpisodes:
    """Sends finished episodes to trackers and the event log, each once and in order."""

    def __init__(self, tracking: Tracking, run: TrackedRun) -> None:
        self.tracking, self.name = tracking, run.name
        self._sent = 0
        self._throttle = Throttle(10.0)
        tracking.begin(run)

    def update(self, progress: LearningProgress) -> None:
        """Send new episodes, and RLlib's metrics with the last. Episodes that a loss repeats are not sent again."""
        for step, row in enumerate(progress.rows[self._sent :], self._sent + 1):
            own = {f"{row['agent']}/{key}": value for key, value in numbers(row).items()}
            self.tracking.log(self.name, step, own | (progress.metrics if step == len(progress.rows) else {}))
        self._sent = max(self._sent, len(progress.rows))
        if self._throttle.due():
            self.tracking.events.emit("episodes ended", episodes=progress.episodes, wanted=progress.wanted)

    def end(self, episodes: pl.DataFrame) -> None:
        """Send the means of the agent's last episodes and of the random agent's."""
        means = {"recent": recent(episodes, LEARNED), "random": recent(episodes, RANDOM, 1 << 30)}
        final = {f"{which}/mean/{key}": value for which, mean in means.items() for key, value in numbers(mean).items()}
        self.tracking.events.emit("agent learned", episodes=episodes.height, numbers=final)
        self.tracking.end(self.name, "done", final)
