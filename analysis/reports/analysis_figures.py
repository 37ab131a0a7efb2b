"""Draws the analyses of a study: variation over seeds, places, power, few judgements, differences by query."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from pyrite.analysis.reports.canvas import INK, family_grid, grid, label_ticks, legend, looks, name_axes
from pyrite.analysis.statistics.across_places import ALL
from pyrite.analysis.statistics.power import DIFFERENCES


def across_figure(frame: pl.DataFrame) -> Figure | None:
    """Draw a forest: each method's difference at every place, and over all; None without two places."""
    methods = frame.filter(place=ALL).sort("difference")["method"].to_list()
    if not methods:
        return None
    places = frame.filter(pl.col("place") != ALL)["place"].unique().sort().to_list()
    figure, (ax,) = grid([""], [""], 0.8 + 0.17 * len(methods) * (len(places) + 2))
    styles, ticks, names = looks(methods), [], []
    y = 0.0
    for method in methods:
        look = styles[method]
        for place in [ALL, *reversed(places)]:
            rows = frame.filter(method=method, place=place).rows(named=True)
            if rows:
                whole = place == ALL
                ax.plot((rows[0]["low"], rows[0]["high"]), (y, y), color=look.colour, lw=3 if whole else 1.2)
                if whole:
                    ax.plot((rows[0]["next_low"], rows[0]["next_high"]), (y, y), color=look.colour, lw=0.8, ls=":")
                ax.plot(rows[0]["difference"], y, color=look.colour, marker="D" if whole else "o", ms=6 if whole else 4)
                ticks.append(y)
                names.append(method if whole else place)
            y += 1
        y += 0.8
    ax.axvline(0, color=INK, lw=0.8, ls="--")
    low, high = (float(str(bound)) for bound in (frame["low"].min(), frame["high"].max()))
    ax.set_xlim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    ax.set_yticks(ticks, names)
    ax.tick_params(axis="y", length=0)
    name_axes(ax, f"difference of {frame[0, 'measure']} from {frame[0, 'against']}", "")
    return figure


def power_figure(frame: pl.DataFrame) -> Figure | None:
    """Draw the seeds that a t-test takes by the size of the difference, a line per method; None if nothing is known."""
    known = frame.drop_nulls("seeds")
    if known.is_empty():
        return None
    figure, rows = family_grid(known, [""], height=2.9)
    styles = looks(known["method"])
    for family, (ax,) in rows:
        for part in family.partition_by("method", maintain_order=True):
            look = styles[part[0, "method"]]
            ax.plot(part["difference"], part["seeds"], color=look.colour, ls=look.line, lw=1.6)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ticks = [0.002, 0.005, *DIFFERENCES, 0.1]
        label_ticks(ax.xaxis, ticks, [f"{tick:g}".replace("0.", ".", 1) for tick in ticks])
        most = max(family["seeds"].to_list())
        label_ticks(ax.yaxis, [count for count in (2, 5, 10, 20, 50, 100, 200, 500, 1000) if count <= 2 * most])
        name_axes(ax, f"difference of {known[0, 'measure']}", "seeds")
    legend(figure, styles, known["method"])
    return figure
