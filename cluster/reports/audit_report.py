"""Reports an audit: each policy's false negatives, what guards would have dropped, new judgements."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

import polars as pl
from matplotlib.figure import Figure
from rich.console import Console

from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import write_table
from pyrite.cluster.reports.canvas import INK, grid, looks, name_axes, png
from pyrite.cluster.reports.report import Table
from pyrite.cluster.statistics.audit_rates import PAIR, guards_of, rates_of
from pyrite.ranking import trec_files


def report_audit(
    storage: Storage, shown: pl.DataFrame, judged: pl.DataFrame, relevant_from: int, console: Console
) -> None:
    """Write rates.csv, guards.csv, qrels.txt, false_negatives.png and audit.parquet; print the rates."""
    negatives = shown.join(judged.select(*PAIR, "inclusion", "grade", "relevant"), on=PAIR, how="left")
    rates = rates_of(negatives)
    write_table(storage, "audit", negatives)
    storage.write("rates.csv", rates.write_csv().encode())
    storage.write("guards.csv", guards_of(negatives).write_csv().encode())
    storage.write("false_negatives.png", png(rates_figure(rates)))
    console.print(rates_table(rates), crop=False)
    write_judgements(storage, judged.drop_nulls("grade"), relevant_from, console)


def write_judgements(storage: Storage, judged: pl.DataFrame, relevant_from: int, console: Console) -> None:
    """Write the judgements of negatives, for `pyrite study --relabel`: query, document, grade."""
    pairs = judged.select(*PAIR, "grade").unique(PAIR, keep="last").sort(PAIR)
    with storage.writing("qrels.txt") as stream:
        trec_files.write_qrels(stream, pairs, storage.place)
    path, relevant = storage.path("qrels.txt"), int((pairs["grade"] >= relevant_from).sum())
    console.print(f"{relevant:,} of {len(pairs):,} judged are relevant: {path}", soft_wrap=True, markup=False)
    console.print(f"to run a study with them: pyrite study --relabel {quote(path)} …", soft_wrap=True, markup=False)


def rates_table(rates: pl.DataFrame) -> Table:
    """The rates, for people."""
    rows = [
        [
            row["method"], row["function"], f"{row['shown']:,}", f"{row['judged']:,}",
            None if row["rate"] is None else f"{row['rate']:.1%}", f"{row['low']:.1%} to {row['high']:.1%}",
        ]
        for row in rates.iter_rows(named=True)
    ]  # fmt: skip
    head = ["method", "function", "shown", "judged", "relevant", "95% interval"]
    return Table(head, rows, words=2, caption="Negatives that are relevant")


def rates_figure(rates: pl.DataFrame, truth: Mapping[str, float] | None = None) -> Figure:
    """Draw each method's share of relevant negatives with its interval, and the truth if it is known."""
    whole = rates.filter(pl.col("function") == "all").drop_nulls("rate")
    drawn, [ax] = grid([""], [""], 0.9 + 0.35 * len(whole))
    styles = looks(whole["method"])
    for y, row in enumerate(whole.iter_rows(named=True)):
        look = styles[row["method"]]
        ax.plot([100 * row["low"], 100 * row["high"]], [y, y], color=look.colour, lw=2)
        ax.plot(100 * row["rate"], y, "o", color=look.colour)
        if truth is not None:
            ax.plot(100 * truth[row["method"]], y, "|", color=INK, ms=14, mew=1.5)
    ax.set_yticks(range(len(whole)), whole["method"].to_list())
    ax.set_ylim(len(whole) - 0.5, -0.5)
    ax.set_xlim(0)
    known = "" if truth is None else "; upright: the truth"
    name_axes(ax, f"negatives shown that are relevant, per cent, with 95% interval{known}", "")
    return drawn
