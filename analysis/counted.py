"""Writes a number with its noun."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "query"), counted(2000, "query"), counted(0, "pair"), counted(2, "way")
    ('1 query', '2,000 queries', '0 pairs', '2 ways')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
