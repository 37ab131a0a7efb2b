"""Formats numbers as tables print them, and shortens the names of methods."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from string import ascii_uppercase

import polars as pl

from pyrite.analysis.methods import UNTRAINED

PART = " · "
WIDTH = 36
"""The width of a line of a broken name."""
WIDEST = 15
"""The longest name that fits into a line of 80 columns; longer ones are lettered."""


def value(number: float | None) -> str:
    """A measure's value: four decimal places, no leading zero below one."""
    if number is None:
        return "–"
    text = f"{number:.4f}"
    return text.replace("0.", ".", 1) if abs(number) < 1 else text


def p_value(p: float | None) -> str | None:
    """A p value: three decimal places, no leading zero."""
    if p is None or p != p:
        return None
    return "<.001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def signed_interval(low: float | None, high: float | None) -> str | None:
    """An interval of a difference."""
    return None if low is None or high is None or low != low else f"{signed(low)} to {signed(high)}"


def title_of(ranker: str, collection: str, several: bool) -> str:
    """The title of a family: its ranker, and its collection if there are several."""
    return f"{ranker} on {collection}" if several else ranker


def by_family(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of each collection and ranker with their title."""
    several = frame["collection"].n_unique() > 1
    for part in frame.partition_by("collection", "ranker", maintain_order=True):
        yield with_cut(title_of(part[0, "ranker"], part[0, "collection"], several), part), part


def with_cut(title: str, rows: pl.DataFrame) -> str:
    """Add to a family's title what its runs have of their checkpoint, if some of them cut it."""
    cuts = rows["cut"].unique(maintain_order=True).to_list() if "cut" in rows.columns else []
    return f"{title} ({' or '.join(cut or 'whole' for cut in cuts)})" if any(cuts) else title


def distinct_names(methods: Iterable[str]) -> dict[str, str]:
    """Shorten the names of methods to the parts in which they differ.

    >>> distinct_names(["bm25 · uniform · rate=1", "bm25 · uniform · rate=2"])
    {'bm25 · uniform · rate=1': 'rate=1', 'bm25 · uniform · rate=2': 'rate=2'}
    """
    names = list(dict.fromkeys(methods))
    if UNTRAINED in names:  # which has no parts
        return dict.fromkeys(names, UNTRAINED) | distinct_names(name for name in names if name != UNTRAINED)
    parts = [name.split(PART) for name in names]
    short = [[part for part in own if not all(part in others for others in parts)] for own in parts]
    if len(names) < 2 or not all(short) or len(set(map(tuple, short))) < len(names):
        return {name: name for name in names}
    return {name: PART.join(kept) for name, kept in zip(names, short, strict=True)}


class Letters:
    """Letters that replace names which are too long for a column of a terminal. A method has one letter in all tables
    of a report, and `Report.to_terminal` explains it once, where it is first printed.

    >>> letters = Letters()
    >>> letters.of({"bm25": "bm25", "random": "random"})
    {'bm25': 'bm25', 'random': 'random'}
    >>> letters.of({"a · rate=0.0001": "a with rate=0.0001", "b": "b"})
    {'a · rate=0.0001': 'A', 'b': 'B'}
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return what a table shows for each name: its letter, or the name if all are short enough."""
        if UNTRAINED in names:
            return dict.fromkeys(names, UNTRAINED) | self.of({k: v for k, v in names.items() if k != UNTRAINED})
        if max(map(len, names.values()), default=0) <= WIDEST:
            return dict(names)
        for name in names:
            at = len(self._given)
            self._given.setdefault(name, ascii_uppercase[at % 26] + (str(at // 26) if at >= 26 else ""))
        return {name: self._given[name] for name in names}


class LetterLine(str):
    """A line that explains a letter (`Letters`)."""

    @property
    def letter(self) -> str:
        """The letter that it explains."""
        return self.partition(" = ")[0]


def letter_key(letters: Mapping[str, str], names: Mapping[str, str]) -> list[LetterLine]:
    """Return a line for each letter, with the name that it abbreviates (`Letters.of`)."""
    lines = [LetterLine(f"{letters[name]} = {shown}") for name, shown in names.items() if letters[name] != shown]
    return sorted(lines, key=lambda line: (len(line.letter), line.letter))


def duration(seconds: float | None) -> str | None:
    """A time: seconds, minutes or hours."""
    if seconds is None:
        return None
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 5970:
        return f"{seconds / 60:.1f} min" if seconds < 597 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count(number: float | None) -> str | None:
    """A large number, by thousands, millions or billions."""
    if number is None:
        return None
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 9.95 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"


def signed(number: float | None) -> str | None:
    """A difference of a measure: sign, four decimal places, no leading zero."""
    if number is None:
        return None
    return f"{number:+.4f}".replace("0.", ".", 1) if abs(number) < 1 else f"{number:+.4f}"


def broken(name: str, width: int = WIDTH) -> str:
    """Break a name over several lines between words, none of which begins with the sign between two parts.

    A word that is longer than a line is broken after commas.
    """
    words = name.replace(" ·", "\xa0·").split(" ")
    breakable = " ".join(word.replace(",", ",\v") if len(word) > width else word for word in words)
    filled = textwrap.fill(
        breakable, width, break_long_words=False, break_on_hyphens=False, expand_tabs=False, replace_whitespace=False
    )
    return filled.replace("\v", "").replace("\xa0", " ")
