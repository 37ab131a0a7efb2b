"""Formats numbers as tables print them, and shortens the names of methods."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from string import ascii_uppercase
from typing import Any

import polars as pl

from pyrite.analysis.methods import UNTRAINED

PART = " · "
WIDTH = 36
"""The width of a line of a broken name."""
WHOLE = pl.Series("cut", [None], dtype=pl.String)
"""What runs have of their checkpoint that say nothing of it."""
WIDEST = 15
"""The longest name that fits into a line of 80 columns; longer ones are lettered."""


Form = Callable[..., Any]


def known(form: Form) -> Form:
    """Return a form that shows nothing if a number is missing: null or nan."""

    @wraps(form)
    def shown(*numbers: Any) -> Any:
        return None if any(number is None or number != number for number in numbers) else form(*numbers)

    return shown


@known
def value(number: float) -> str:
    """A measure's value: four decimal places, no leading zero below one."""
    return without_zero(f"{number:.4f}")


@known
def p_value(p: float) -> str:
    """A p value: three decimal places, no leading zero."""
    return "<.001" if p < 0.001 else without_zero(f"{p:.3f}")


@known
def signed(number: float) -> str:
    """A difference of a measure: sign, four decimal places, no leading zero."""
    return without_zero(f"{number + 0.0:+.4f}")  # of a difference of 0 that was turned, which is -0.0, too


@known
def signed_interval(low: float, high: float) -> str:
    """An interval of a difference."""
    return f"{signed(low)} to {signed(high)}"


@known
def duration(seconds: float) -> str:
    """A time: seconds, minutes or hours."""
    return _in_units(seconds, DURATIONS)


@known
def count(number: float) -> str:
    """A large number, by thousands, millions or billions."""
    return _in_units(number, COUNTS)


def without_zero(text: str) -> str:
    """Return a number without the zero before its point."""
    return re.sub(r"^([+-]?)0\.", r"\1.", text)


DURATIONS = ((3600, 5970, math.inf, " h"), (60, 99.5, 597, " min"), (1, -math.inf, 9.95, " s"))
COUNTS = ((1e9, 1e9, 9.95e9, "G"), (1e6, 1e6, 9.95e6, "M"), (1e3, 1e3, 9.95e3, "k"), (1, -math.inf, -math.inf, ""))
"""Units, from the largest: their size, the number from which on they are used, that up to which a decimal place is
shown, and their name."""


def _in_units(number: float, units: Sequence[tuple[float, float, float, str]]) -> str:
    size, _, exact, name = next(unit for unit in units if number >= unit[1])
    return f"{number / size:.{int(number < exact)}f}{name}"


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
    cuts = rows.get_column("cut", default=WHOLE).unique(maintain_order=True)
    return f"{title} ({' or '.join(cuts.fill_null('whole'))})" if cuts.count() else title


def distinct_names(methods: Iterable[str]) -> dict[str, str]:
    """Shorten the names of methods to the parts in which they differ.

    >>> distinct_names(["bm25 · uniform · rate=1", "bm25 · uniform · rate=2"])
    {'bm25 · uniform · rate=1': 'rate=1', 'bm25 · uniform · rate=2': 'rate=2'}
    """
    same = {name: name for name in methods}
    parts = {name: name.split(PART) for name in same if name != UNTRAINED}  # which has no parts
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    short = {name: PART.join(itertools.filterfalse(shared.__contains__, own)) for name, own in parts.items()}
    distinct = len({*filter(None, short.values())}) == len(parts)
    return same | short if distinct else same


class Letters:
    """Letters that replace names which are too long for a column of a terminal. A method has one letter in all tables
    of a report, and `Report.to_terminal` explains it once, where it is first printed.

    >>> letters = Letters()
    >>> letters.of({"bm25": "bm25", "random": "random"})
    {'bm25': 'bm25', 'random': 'random'}
    >>> letters.of({"a · rate=0.0001": "a with rate=0.0001", "b": "b"})
    {'a · rate=0.0001': 'A', 'b': 'B'}

    A letter that is a name in the table is passed over:

    >>> Letters().of({"a · rate=0.0001": "a with rate=0.0001", "A": "A"})
    {'a · rate=0.0001': 'B', 'A': 'C'}
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken = set[str]()
        self._letters = (f"{letter}{number or ''}" for number in itertools.count() for letter in ascii_uppercase)

    def _next(self) -> str:
        """Return the next letter that is no name."""
        return next(letter for letter in self._letters if letter not in self._taken)

    def of(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return what a table shows for each name: its letter, or the name if all are short enough."""
        long = {name: shown for name, shown in names.items() if name != UNTRAINED}
        if max(map(len, long.values()), default=0) <= WIDEST:
            return dict(names)
        self._taken |= {*long, *long.values()}
        for name in long:
            if name not in self._given:
                self._given[name] = self._next()
        return {name: self._given.get(name, name) for name in names}


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
