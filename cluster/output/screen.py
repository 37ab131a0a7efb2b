"""Prints on a terminal with control characters shown: texts, ids and names of files may come from anywhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from pyrite.cluster.config.secrets import concealed
from pyrite.cluster.output.terminal import visible


class Screen(Console):
    """A console that writes out control characters in what it prints. Its own colours stay, and `:train:` is no emoji.

    Attributes:
        last_line: what was printed last.
        line_at: when it was, in seconds of `time.monotonic`.
        spoke_at: when anything was printed, `say` included.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "emoji": False, **options})
        self.last_line = ""
        self.line_at = self.spoke_at = time.monotonic()

    def print(self, *objects: Any, **options: Any) -> None:
        self.last_line = "".join(map(str, objects[-1:]))
        self.line_at = self.spoke_at = time.monotonic()
        super().print(*objects, **options)

    def say(self, line: str) -> None:
        """Print a line about the last one, which stays the last one."""
        super().print(line, markup=False)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)  # before a table measures it

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


class _VisibleLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(concealed(super().format(record)))


def show_warnings() -> None:
    """Write out control characters in warnings that no other handler takes, and leave out secrets."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleLines())
