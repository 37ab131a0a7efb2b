"""Prints on a terminal with control characters shown: texts, ids and names of files may come from anywhere."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from pyrite.cluster.config.secrets import concealed
from pyrite.cluster.output.terminal import visible


class Screen(Console):
    """A console that writes out control characters in what it prints. Its own colours stay."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, **options})

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
