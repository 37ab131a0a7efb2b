"""Shows on one line of the screen how far an agent's learning is."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cluster.output.duration import duration
from cluster.output.episodes import LEARNED, RANDOM, recent, table
from cluster.rollouts.trainer import Progress

LINES = 10
"""Lines that a learning prints where the console is not a terminal."""


class LiveLine:
    """Episodes, return, final measure against the random agent's, share of each action, time left.

    Args:
        console: what to draw on.
        measure: the validation measure's name.
    """

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

    def tell(self, progress: Progress) -> None:
        """Show how far it is."""
        if self.started is None:
            self.started, self.before = time.monotonic(), progress.episodes
            self.printed = progress.episodes * LINES // progress.wanted
        self.line = Text(self.describe(progress))
        tenth = progress.episodes * LINES // progress.wanted
        if tenth > self.printed and not self.console.is_terminal:
            self.printed = tenth
            self.console.print(self.line, soft_wrap=True)

    def describe(self, progress: Progress) -> str:
        """The line."""
        episodes = table(progress.rows)
        learned, random = recent(episodes, LEARNED), recent(episodes, RANDOM, 1 << 30)
        parts = [f"{min(progress.episodes, progress.wanted)}/{progress.wanted} episodes"]
        if not learned:
            parts.append(f"{len(progress.rows)} of the random agent")
        if learned:
            parts.append(f"return {learned['return']:.3f}" + _beside(random, "return", ".3f"))
            parts.append(f"{self.measure} {learned['validation']:.4f}" + _beside(random, "validation", ".4f"))
            shares = {name: value for name, value in learned.items() if name.startswith("share:")}
            parts += [f"{name.removeprefix('share:')} {value:.0%}" for name, value in shares.items()]
        if progress.losses:
            parts.append(f"went back {progress.losses} times" if progress.losses > 1 else "went back once")
        ran = progress.episodes - self.before
        if ran and self.started is not None:
            left = (time.monotonic() - self.started) / ran * max(progress.wanted - progress.episodes, 0)
            parts.append(f"about {duration(left)} left")
        return "   ".join(parts)


def _beside(random: dict[str, Any], name: str, form: str) -> str:
    return f" (random agent {random[name]:{form}})" if random else ""
