"""Shows the rates of false negatives that an audit found: a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.figure import Figure

from pyrite.analysis.reports import audit_words as words
from pyrite.analysis.reports import columns
from pyrite.analysis.reports.canvas import INK, grid, looks, name_axes
from pyrite.analysis.reports.report import Table

RATES = (
    columns.text("method"), columns.text("function"), columns.number("shown", ","), columns.number("judged", ","),
    columns.number("relevant", ".1%", "rate"), columns.shown("95% interval", "{:.1%} to {:.1%}".format, "low", "high"),
)  # fmt: skip


def rates_table(rates: pl.DataFrame) -> Table:
    """Return the rates, for people."""
    return columns.table(rates, RATES, words=2, caption=words.RATES_TABLE)


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
    name_axes(ax, words.RATES_FIGURE + ("" if truth is None else words.TRUTH), "")
    return drawn
