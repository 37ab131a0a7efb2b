"""Shortens the names of methods where they are long, by what all of them share, and breaks them between their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

PART = " · "
LONG = 40
"""Characters from which on the longest name calls for it."""
WIDTH = 34
"""Of a line of a broken name."""


def short_names(methods: Iterable[str]) -> tuple[dict[str, str], str]:
    """What tables and figures call methods.

    Args:
        methods: their names, of parts with " · " between them: what is sampled from first, then what else differs.

    Returns:
        A name for each, without the last parts that all share if any is long; and those parts, empty where none are
        left out.
    """
    names = list(dict.fromkeys(methods))
    parts = [name.split(PART) for name in names]
    if len(names) < 2 or max(map(len, names)) <= LONG:
        return {name: name for name in names}, ""
    everywhere = [part for part in parts[0][1:] if all(part in own[1:] for own in parts)]
    shortened = [[own[0], *(part for part in own[1:] if part not in everywhere)] for own in parts]
    if len(set(map(tuple, shortened))) < len(names):
        return {name: name for name in names}, ""
    return {name: PART.join(own) for name, own in zip(names, shortened, strict=True)}, PART.join(everywhere)


def broken(name: str, width: int = WIDTH) -> str:
    """A name over several lines, broken between its parts, and between words of a part that is longer than a line."""
    words = [f"{word} " for word in name.split(" ")]
    lines: list[str] = []
    while words:
        line = _fitting(words, width)
        lines.append("".join(line).rstrip())
        words = words[len(line) :]
    return "\n".join(lines)


def _fitting(words: Sequence[str], width: int) -> list[str]:
    """The words of the next line: at least one, and no " · " at its beginning."""
    lengths = [len("".join(words[: count + 1]).rstrip()) for count in range(len(words))]
    count = max(sum(1 for _ in takewhile(lambda length: length <= width, lengths)), 1)
    if count < len(words) and words[count].strip() == PART.strip():
        count += 1
    return list(words[:count])
