"""Reads durations as people write them."""

from __future__ import annotations

import re

from pyrite.ranking.errors import refuse

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def seconds_of(text: str | float, option: str) -> float:
    """Return the seconds of a duration: `2h`, `1h30m`, `90s`, or a number of seconds; `option` is for the message.

    Example:
        >>> seconds_of("1h30m", "time_budget")
        5400.0

    Raises:
        BadInput: if it is none.
    """
    seconds = 0.0
    if not isinstance(text, str):
        seconds = float(text)
    elif re.fullmatch(r"(\d+(\.\d+)?[dhms])+", text):
        seconds = sum(float(number) * UNITS[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)([dhms])", text))
    refuse(not seconds > 0, f"{option} is {text!r}", remedy="write 2h, 30m, 1h30m or 90s")
    return seconds
