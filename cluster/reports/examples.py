"""Shows the texts of negatives that rankers were trained with."""

from __future__ import annotations

import polars as pl

from cluster.output.methods import with_methods
from cluster.reports.labels import distinct_names
from cluster.reports.report import Cell, Fold, Part, Section, Table

OPEN = 8
"""The number of methods up to which the tables are open."""
LETTERS = 200
"""Letters of a text that are shown."""


def examples_section(trials: pl.DataFrame, examples: pl.DataFrame | None) -> list[Section]:
    """A table for each of a few training queries, with a relevant document and each method's negatives."""
    if examples is None or examples.is_empty():
        return []
    named = examples.join(
        with_methods(trials).select("run", "method", "ranker"), on="run", how="inner", maintain_order="left"
    )
    names = distinct_names(named["method"].unique(maintain_order=True))
    parts: list[Part] = [
        "Negatives that rankers were shown for three training queries, in the run of the lowest seed: of each function "
        "the three that were shown most often. The lead is the ranker's score of a negative less that of the relevant "
        "document, as a mean over the times that it was shown: above 0 the ranker took it for more relevant."
    ]
    tables: list[Part] = []
    several = named["ranker"].n_unique() > 1
    for part in named.partition_by("collection", "query", maintain_order=True):
        rows: list[list[object] | str] = [["relevant", long(part[0, "relevant"] or ""), "", ""]]
        for (ranker, method), own in part.partition_by("ranker", "method", as_dict=True, maintain_order=True).items():
            rows.append(f"{ranker}: {names[str(method)]}" if several else names[str(method)])
            rows += [
                [row["function"], long(row["text"]), f"{row['times']:,}", f"{row['margin']:+.2f}"]
                for row in own.iter_rows(named=True)
            ]
        head = ["from", "document", "times", "lead"]
        tables.append(Table(head, rows, words=2, caption=short(part[0, "question"])))
    if named.select("ranker", "method").n_unique() > OPEN:
        tables = [Fold("Show the examples", tables)]
    return [Section("Examples of negatives", [*parts, *tables])]


def long(text: str) -> Cell:
    """Return a cell with the beginning of a text."""
    return Cell(short(text), long=True)


def short(text: str) -> str:
    """Return the beginning of a text on one line, cut at a blank if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LETTERS else line[:LETTERS].rsplit(" ", 1)[0] + " …"
