"""Formats durations."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Format seconds as 45 s, 3 min or 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
