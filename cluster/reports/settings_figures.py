"""Draws what swept settings did to the results."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cluster.output.methods import CHECKPOINT, factors, swept, with_factors
from cluster.reports.canvas import INK, Look, Panels, grid, legend, name_axes, section_titles

LEVELS = 6  # a number swept over up to this many values has a tick at each, and its means joined


def hyperparameters(trials: pl.DataFrame, measure: str) -> Figure | None:
    """Draw the measure against each swept hyperparameter, a row of panels each; None if none was swept.

    Numbers have a logarithmic scale if they span more than a factor of 20; names are side by side with a box over all
    methods, in which methods are ordered from left to right. A method without the setting is left out, unless the
    setting is a number of negatives, of which it has none.
    """
    numbers = set(swept(trials).drop_nulls("number")["key"])
    # A line joins the values of a number: runs that differ by it alone are of one method here.
    trials = with_factors(trials, [key for key in factors(trials) if key not in numbers])
    panels = Panels(trials, measure)
    pairs = swept(trials).join(panels.runs.select("run").unique(), on="run")
    values = pairs.group_by("key").agg(pl.col("value").n_unique())
    # Rankers from several checkpoints have panels of their own.
    keys = values.filter((pl.col("value") > 1) & (pl.col("key") != CHECKPOINT))["key"].sort().to_list()
    if not keys:
        return None
    rows = section_titles(panels.sections) * len(keys)
    figure, axes = grid(rows, [f"{origin} candidates" for origin in panels.origins], height=2.5)
    drawn: set[str] = set()
    places = [(k, *section, o) for k in keys for section in panels.sections for o in panels.origins]
    for (key, collection, ranker, origin), ax in zip(places, axes, strict=True):
        setting = pairs.filter(key=key).select("run", "number", setting="value")
        here = panels.runs.filter(collection=collection, ranker=ranker, candidates=origin)
        here = here.join(setting, on="run", how="left")
        if key.startswith("negatives.") and here["number"].count():  # a method without the function shows none of it
            here = here.with_columns(pl.col("number").fill_null(0.0))
        known = here.drop_nulls("setting") if here["number"].null_count() else here
        draw = _numbers if known["number"].null_count() == 0 else _names
        draw(ax, known, panels.looks)
        drawn |= set(known["method"])
        name_axes(ax, key, measure)
    legend(figure, panels.looks, drawn, lines=False)
    return figure


def _numbers(ax: Axes, here: pl.DataFrame, looks: dict[str, Look]) -> None:
    levels = here["number"].unique().sort().to_numpy()
    few = len(levels) <= LEVELS
    if len(levels) and levels[0] > 0 and levels[-1] > 20 * levels[0]:
        ax.set_xscale("log")
    for of in here.partition_by("method", maintain_order=True):
        look = looks[of[0, "method"]]
        ax.scatter(of["number"], of["value"], s=20, color=look.colour, marker=look.marker, alpha=0.75, lw=0)
        means = of.group_by("number").agg(pl.col("value").mean()).sort("number")
        if few and 1 < len(means) < len(of):
            ax.plot(means["number"], means["value"], color=look.colour, ls=look.line, lw=1.2, alpha=0.75)
    if few:
        ax.set_xticks(levels, [f"{level:g}" for level in levels])
        ax.set_xticks([], minor=True)


def _names(ax: Axes, here: pl.DataFrame, looks: dict[str, Look]) -> None:
    settings = here["setting"].unique().sort().to_list()
    line = {"color": INK, "alpha": 0.55, "linewidth": 1.0}
    ax.boxplot(
        [here.filter(setting=setting)["value"].to_numpy() for setting in settings],
        positions=range(len(settings)),
        widths=0.8,
        showfliers=False,
        boxprops=line,
        whiskerprops=line,
        capprops=line,
        medianprops={**line, "linewidth": 1.8},
    )
    for x, setting in enumerate(settings):
        methods = here.filter(setting=setting).partition_by("method", maintain_order=True)
        for of, offset in zip(methods, np.linspace(-0.32, 0.32, len(methods) + 2)[1:-1], strict=True):
            look = looks[of[0, "method"]]
            at = np.full(len(of), x + offset)
            ax.scatter(at, of["value"], s=18, color=look.colour, marker=look.marker, alpha=0.75, lw=0)
    ax.set_xticks(range(len(settings)), settings)
