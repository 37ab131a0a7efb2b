"""Prints the summary of a pooling study as a table (Losada et al. 2016, tables 2 and 3)."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich import box
from rich.table import Table
from rich.text import Text

from cluster.reports.pool_summary import ALPHA

MOST = "bold: the most found"
TESTED = "* differs from the baseline (paired t-test over topics, p < .05, Holm)"


def table(summary: pl.DataFrame) -> Table:
    """Relevant documents found a topic, methods by budgets, a section a pool; in the order of the first budget."""
    columns = summary["judgements"].unique(maintain_order=True).to_list()
    layout = Table(
        title="relevant documents found a topic, by judgements",
        caption="; ".join([MOST, TESTED] if summary["p"].count() else [MOST]),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    layout.title_style, layout.caption_style, layout.caption_justify = "bold", "dim", "left"
    layout.add_column("method", no_wrap=True, min_width=max(map(len, summary["method"]), default=6))
    for column in columns:  # as wide as it needs to be: a figure cut short is none
        width = max(len(f"{found:.2f}*") for found in summary.filter(judgements=column)["found_mean"])
        layout.add_column(column, justify="right", no_wrap=True, min_width=width)
    several = summary["pool"].n_unique() > 1
    for (pool,), part in summary.partition_by("pool", as_dict=True, maintain_order=True).items():
        if several:
            layout.add_row(Text(str(pool), style="bold cyan"))
        for method in ranked(part):
            cells = {row["judgements"]: row for row in part.filter(method=method).iter_rows(named=True)}
            layout.add_row(Text(method), *(_cell(cells.get(column)) for column in columns))
        layout.add_section()
    return layout


def contrast_table(contrasts: pl.DataFrame) -> Table:
    """What a contrast named beforehand found more, by judgements: difference, 95% interval and p, a row each."""
    layout = Table(
        title="contrasts named beforehand: relevant documents found more, a topic",
        caption="paired t-test over topics, each by itself; * p < .05",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
    )
    layout.title_style, layout.caption_style, layout.title_justify = "bold", "dim", "left"
    layout.caption_justify = "left"
    several = contrasts["pool"].n_unique() > 1
    for name in (*(["pool "] if several else []), "contrast ", "judgements ", "difference ", "95% interval ", "p"):
        layout.add_column(name, no_wrap=True, justify="left" if name in ("pool ", "contrast ") else "right")
    for row in contrasts.iter_rows(named=True):
        cells = [f"{row['method']} − {row['against']} ", f"{row['judgements']} ", f"{row['difference']:+.2f} "]
        layout.add_row(*map(Text, ([f"{row['pool']} "] if several else []) + cells + contrast_cells(row)))
    return layout


def contrast_cells(row: dict[str, Any]) -> list[str]:
    """A contrast's interval and p, as people read them."""
    if row["p"] is None:
        return ["– ", "–"]
    mark = "*" if row["p"] < ALPHA else " "
    return [
        f"{row['low']:+.2f} to {row['high']:+.2f} ",
        f"{row['p']:.4f}{mark}" if row["p"] >= 1e-4 else f"<.0001{mark}",
    ]


def ranked(part: pl.DataFrame) -> list[str]:
    """The methods of a pool, those that find most at the first budget first."""
    first = part.filter(pl.col("judgements") == part[0, "judgements"])
    return first.sort("found_mean", descending=True, maintain_order=True)["method"].to_list()


def _cell(row: dict[str, object] | None) -> Text:
    if row is None:
        return Text("–")
    mark = "*" if isinstance(row["p"], float) and row["p"] < ALPHA else " "
    return Text.assemble((f"{row['found_mean']:.2f}", "bold" if row["best"] else ""), mark)
