"""Refuses the old names of options and says the new ones, for one release after a rename."""

from __future__ import annotations

import re

RENAMED: dict[str, str] = {
    "refresh.on_loss": "refresh.on_lost_index",
    "hold": "decision_every",
    "yardstick": "random_baseline",
    "panel": "validation_sample",
}
"""New names by old ones: parts of an option's path, as many as tell it from others of that name."""


def new_name(option: str) -> str | None:
    """What an option is called now; None where it was never renamed.

    Args:
        option: its path, e.g. `function.dense.refresh.on_loss`.
    """
    for old, new in RENAMED.items():
        named, found = re.subn(rf"(^|\.){re.escape(old)}(?=\.|$)", rf"\g<1>{new}", option)
        if found:
            return named
    return None


def no_option(option: str) -> str:
    """The message for an option that is not there, with its new name where it was renamed."""
    new = new_name(option)
    return f"there is no option {option}" + (f": it is called {new} now" if new else "")
