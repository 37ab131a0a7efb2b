"""Reports outside terminals, every 30 seconds without a line, that a command still runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from pyrite.cluster.limits import LINE_EVERY_S
from pyrite.cluster.output.screen import Screen
from pyrite.cluster.output.throttle import poll
from pyrite.cluster.telemetry.live_table import duration

LOOKS = 30
"""Looks per interval."""
MARKS = re.compile(r"\[/?(dim)?\]")
"""The marks of dimmed lines."""


@contextmanager
def silence_shown(console: Console, every: float = LINE_EVERY_S) -> Iterator[None]:
    """A context that is never silent for much longer than `every` seconds.

    A last line such as "reading pairs …" is printed again with the time since. Terminals and notebooks show bars and
    tables instead.
    """
    if not isinstance(console, Screen) or console.is_terminal or console.is_jupyter or console.quiet:
        yield
        return

    def look() -> None:
        now = time.monotonic()
        if now - console.spoke_at >= every:
            console.spoke_at = now
            spent, doing = duration(now - console.line_at), MARKS.sub("", console.last_line)
            console.say(f"{doing} {spent}" if doing.endswith("…") else f"still running, {spent} after the last line")

    console.spoke_at = console.line_at = time.monotonic()
    with poll(look, every / LOOKS, at_the_end=False):
        yield
