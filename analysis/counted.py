"""Writes a number with its noun, and picks the lines that apply."""

from __future__ import annotations

from collections.abc import Mapping


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "query"), counted(2000, "query"), counted(0, "pair"), counted(2, "way")
    ('1 query', '2,000 queries', '0 pairs', '2 ways')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def applying(lines: Mapping[str, object]) -> list[str]:
    """Return the lines whose condition holds, or whose count is not 0, in order.

    >>> applying({"nothing was lost": False, "one run was repeated": 1})
    ['one run was repeated']
    """
    return [line for line, holds in lines.items() if holds]
