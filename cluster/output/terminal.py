"""Prints lines and counts to the terminal, and writes control characters out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyrite.analysis.counted import applying as applying
from pyrite.analysis.counted import counted as counted

if TYPE_CHECKING:
    from rich.console import Console


CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
"""Characters by which a text could change a terminal's title, colours or content, and how they are shown."""


def visible(text: str) -> str:
    r"""Return a text with its control characters written out.

    >>> print(visible("\x1b[2Jcleared"))
    \x1b[2Jcleared
    """
    return text.translate(CONTROLS)


def print_lines(console: Console, *lines: str) -> None:
    """Print lines: long ones are not broken, and brackets in them are no markup."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def print_counts(console: Console, counts: Mapping[str, int]) -> None:
    """Print how often something was skipped or noted, unless it never was."""
    for what, count in counts.items():
        if count:
            console.print(f"{what}: {count:,}", markup=False)
