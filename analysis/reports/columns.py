"""Declares tables by their columns: one declaration gives the page, the terminal and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import polars as pl

from pyrite.analysis.reports.labels import by_family, known, p_value, signed, signed_interval, value
from pyrite.analysis.reports.report import Table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        head: its title.
        of: returns what it shows of a row; None is a dash.
    """

    head: str
    of: Callable[[Row], object]


def shown(head: str, form: Callable[..., object], *names: str) -> Column:
    """Declare a column of values in a form; a dash if one of them is missing."""
    formed = known(form)
    return Column(head, lambda row: formed(*(row[name] for name in names)))


def text(head: str, name: str = "") -> Column:
    """Declare a column that shows values as they are."""
    return Column(head, itemgetter(name or head))


def named(head: str, names: Mapping[str, str], name: str = "") -> Column:
    """Declare a column of names, shortened."""
    return Column(head, lambda row: names.get(row[name or head]))


def number(head: str, form: str, name: str = "") -> Column:
    """Declare a column of numbers in a form such as ".0%"."""
    return shown(head, f"{{:{form}}}".format, name or head)


def measure(head: str, name: str = "") -> Column:
    """Declare a column of a measure's values."""
    return shown(head, value, name or head)


def diff(head: str = "difference", name: str = "difference") -> Column:
    """Declare a column of differences."""
    return shown(head, signed, name)


def interval(head: str, low: str = "low", high: str = "high") -> Column:
    """Declare a column of intervals of differences."""
    return shown(head, signed_interval, low, high)


def p(head: str, name: str) -> Column:
    """Declare a column of p values."""
    return shown(head, p_value, name)


def table(
    rows: pl.DataFrame | Iterable[Row], columns: Sequence[Column], words: int = 1, caption: str = "", note: str = ""
) -> Table:
    """Return the table of some rows."""
    return Table([column.head for column in columns], lines(rows, columns), words, caption, note)


def lines(rows: pl.DataFrame | Iterable[Row], columns: Sequence[Column]) -> list[Sequence[object] | str]:
    """Return the cells of some rows."""
    given = rows.iter_rows(named=True) if isinstance(rows, pl.DataFrame) else rows
    return [[column.of(row) for column in columns] for row in given]


def table_by_family(
    frame: pl.DataFrame, columns: Sequence[Column], words: int = 1, caption: str = "", note: str = ""
) -> Table:
    """Return a table with a title for the rows of each collection and ranker."""
    return grouped(by_family(frame), columns, words, caption, note)


def grouped(
    parts: Iterable[tuple[str, pl.DataFrame]],
    columns: Sequence[Column],
    words: int = 1,
    caption: str = "",
    note: str = "",
) -> Table:
    """Return a table with a title for the rows of each part."""
    rows: list[Sequence[object] | str] = []
    for title, part in parts:
        rows += [title, *lines(part, columns)]
    return Table([column.head for column in columns], rows, words, caption, note)
