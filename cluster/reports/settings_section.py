"""Lays out the best settings of a search: a row per method, and the command that compares them with new seeds."""

from __future__ import annotations

import polars as pl
from rich.markup import escape

from cluster.output.methods import leading_evaluations
from cluster.reports.labels import by_family, distinct_names, value
from cluster.reports.report import Part, Section, Table, TerminalLine, Verbatim
from cluster.statistics.best_settings import best_settings, comparison_command

NOTE = "The settings of each method that validated best. Test values of the runs that chose them tend to be too high."


def settings_section(trials: pl.DataFrame) -> Section | None:
    """The best settings of each method, below the verdict; None if no method ran with several."""
    found = best_settings(trials)
    if found.is_empty():
        return None
    leading = leading_evaluations(trials)
    origins = [origin for origin, _ in leading]
    parts: list[Part] = []
    for title, part in by_family(found):
        names = distinct_names(part["method"])
        rows = [
            [
                names[row["method"]],
                row["settings"],
                *(value(row[name]) for name in ("validation", *origins)),
                row["tried"],
            ]
            for row in part.iter_rows(named=True)
        ]
        head = ["method", "best settings", "dev", *origins, "of"]
        parts.append(Table(head, rows, words=2, caption=f"{title}: best settings by dev queries, {leading[0][1]}"))
    leader = found.sort("validation", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    family = found.filter(collection=leader["collection"], ranker=leader["ranker"])
    command = comparison_command(family, 1 + max(trials["seed"].to_list()))
    page: list[Part] = [*parts, NOTE, Verbatim(command)]
    line = TerminalLine(f"With new seeds: {escape(command)}")
    return Section("", page, [*parts, line, ""], {"best_settings.parquet": found})
