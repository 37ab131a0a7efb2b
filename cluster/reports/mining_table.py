"""Shows mined negatives in the terminal: a table by function, and a row as an example."""

from __future__ import annotations

import polars as pl

from cluster.output.terminal import counted
from cluster.reports.report import Table
from ranking.collections.collection import Collection

SCORES = ("score of positives", "of negatives")
TITLES = {"median rank": "rank", "rank of 90%": "90%", "score of positives": "score +", "of negatives": "score −"}
"""Shorter titles of columns on the screen."""
WIDTH = 80
"""The letters of a line of an example."""


def summary_table(totals: dict[str, int], functions: pl.DataFrame) -> Table:
    """Return the table for the screen."""
    caption = (
        f"{counted(totals['rows'], 'row')} of {counted(totals['examples'], 'pair')}; "
        f"{totals['left out']:,} had too few negatives"
    )
    note = "rank: the median, and what nine in ten do not exceed; score +: of the positives, −: of the negatives"
    rows = [[_figure(name, value) for name, value in row.items()] for row in functions.iter_rows(named=True)]
    return Table([TITLES.get(name, name) for name in functions.columns], rows, caption=caption, note=note)


def _figure(column: str, value: float | str | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return f"{value:,.2f}" if column in SCORES else f"{value:,.0f}"


def example(ids: pl.DataFrame, collection: Collection) -> list[str]:
    """Return lines with the texts of the first row that has a negative, each cut to a line; none if there is none."""
    for row in ids.iter_rows(named=True):
        if any(row["functions"]):
            question = collection.queries.filter(id=row["query_id"])["text"][0]
            found = collection.document_rows(pl.Series(row["document_ids"])).to_numpy()
            names = [
                f"{function}, rank {rank}" if function and rank else function or "positive"
                for function, rank in zip(row["functions"], row["ranks"], strict=True)
            ]
            texts = {"query": question, **dict(zip(names, collection.gather("text", found), strict=True))}
            width = max(map(len, texts)) + 2
            lines = [f"  {name:<{width}}{' '.join(text.split())}" for name, text in texts.items()]
            return [line if len(line) <= WIDTH else line[: WIDTH - 2] + " …" for line in lines]
    return []
