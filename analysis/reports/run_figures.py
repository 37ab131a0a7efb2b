"""Draws the figures of a study's runs: their distribution, what methods and settings reach, how they learned.

Each function returns a Figure (no pyplot, no global state), which `canvas` renders. A method has
one colour in all figures; rows of panels are rankers, columns are candidate origins.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyrite.analysis.methods import (
    AGENTS,
    CHECKPOINT,
    LABEL,
    LEARN,
    evaluations,
    factors,
    measurements,
    swept,
    with_factors,
    with_methods,
)
from pyrite.analysis.reports.canvas import INK, Look, family_grid, grid, label_ticks, legend, looks, name_axes
from pyrite.analysis.reports.labels import broken, by_family
from pyrite.analysis.statistics.oscillation import DEV_LOSS, dev_losses

LEVELS = 6  # a number swept over up to this many values has a tick at each, and its means joined


def _measured(trials: pl.DataFrame, measure: str) -> tuple[pl.DataFrame, dict[str, Look], list[str]]:
    """Return the finished runs by one measure, the look of every method, and the origins of candidates."""
    every = measurements(trials)
    runs = every.filter(measure=measure).drop_nulls("value")
    runs = runs.sort("collection", "ranker", "method", "seed", "run", maintain_order=True)
    return runs, looks(every["method"]), [origin for origin, name in evaluations(trials) if name == measure]


def curves(trials: pl.DataFrame) -> Figure:
    """Draw validation and losses by epoch: the mean over a method's runs, and one standard deviation as a band.

    The dev loss is a column if any run has one. A run that stopped early keeps its last value, so that each mean is
    over the same runs; the line is thin if fewer than half of them were still training.
    """
    methods = with_methods(trials)
    done = trials.filter(pl.col("status") == "done").drop_nulls("curve_validation")
    columns = ["curve_validation", "curve_loss"] + ([] if dev_losses(done).is_empty() else [DEV_LOSS])
    every = methods.join(done.select("run", "validation_measure", *columns), on="run").sort(
        "collection", "ranker", "method", "run"
    )
    measure = "/".join(every["validation_measure"].drop_nulls().unique().sort())
    names = dict(zip(columns, (f"validation {measure}".strip(), "training loss", "dev loss"), strict=False))
    figure, rows = family_grid(every, list(names.values()))
    look = looks(methods["method"])
    for family, axes in rows:
        for (column, title), ax in zip(names.items(), axes, strict=True):
            for of in family.partition_by("method", maintain_order=True):
                _curve(ax, of[column].drop_nulls().to_list(), look[of[0, "method"]])
            name_axes(ax, "epoch", title)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    legend(figure, look, every["method"])
    return figure


def _curve(ax: Axes, runs: list[list[float]], look: Look) -> None:
    runs = [*filter(None, runs)]
    if not runs:
        return
    lengths = sorted(map(len, runs))
    epochs, half = lengths[-1], lengths[(len(lengths) - 1) // 2]
    held = np.stack([np.pad(values, (0, epochs - len(values)), mode="edge") for values in runs])
    x, mean, sd = np.arange(1, epochs + 1), held.mean(axis=0), held.std(axis=0)
    marker = "o" if epochs == 1 else ""
    ax.plot(x[:half], mean[:half], color=look.colour, ls=look.line, lw=1.8, marker=marker, ms=4)
    ax.plot(x[half - 1 :], mean[half - 1 :], color=look.colour, ls=look.line, lw=0.7)
    ax.fill_between(x, mean - sd, mean + sd, color=look.colour, alpha=0.08, lw=0)


def hyperparameters(trials: pl.DataFrame, measure: str) -> Figure | None:
    """Draw the measure against each swept hyperparameter, a row of panels each; None if none was swept.

    Numbers have a logarithmic scale if they span more than a factor of 20; names are side by side with a box over all
    methods, in which methods are ordered from left to right. A method without the setting is left out, unless the
    setting is a number of negatives, of which it has none.
    """
    numbers = set(swept(trials).drop_nulls("number")["key"])
    # A line joins the values of a number: runs that differ by it alone are of one method here.
    trials = with_factors(trials, [key for key in factors(trials) if key not in numbers])
    runs, styles, origins = _measured(trials, measure)
    pairs = swept(trials).join(runs.select("run").unique(), on="run")
    values = pairs.group_by("key").agg(pl.col("value").n_unique())
    # Rankers from several checkpoints have separate panels, and agents and labels are no hyperparameter.
    others = [CHECKPOINT, LABEL, *AGENTS, *LEARN]
    keys = values.filter((pl.col("value") > 1) & ~pl.col("key").is_in(others))["key"].sort().to_list()
    if not keys:
        return None
    families = list(by_family(runs))
    titles = [title for title, _ in families]
    figure, axes = grid(titles * len(keys), [f"{origin} candidates" for origin in origins], height=2.5)
    drawn: set[str] = set()
    for (key, (_, family), origin), ax in zip(product(keys, families, origins), axes, strict=True):
        setting = pairs.filter(key=key).select("run", "number", setting="value")
        here = family.filter(candidates=origin).join(setting, on="run", how="left")
        if key.startswith("negatives.") and here["number"].count():  # a method without the function shows none of it
            here = here.with_columns(pl.col("number").fill_null(0.0))
        known = here.drop_nulls("setting") if here["number"].null_count() else here
        draw = _numbers if known["number"].null_count() == 0 else _names
        draw(ax, known, styles)
        drawn |= set(known["method"])
        name_axes(ax, key, measure)
    legend(figure, styles, drawn, lines=False)
    return figure


def _numbers(ax: Axes, here: pl.DataFrame, looks: dict[str, Look]) -> None:
    levels = here["number"].unique().sort().to_list()
    few = len(levels) <= LEVELS
    if len(levels) and levels[0] > 0 and levels[-1] > 20 * levels[0]:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    for of in here.partition_by("method", maintain_order=True):
        look = looks[of[0, "method"]]
        ax.scatter(of["number"], of["value"], s=20, color=look.colour, marker=look.marker, alpha=0.75, lw=0)
        means = of.group_by("number").agg(pl.col("value").mean()).sort("number")
        if few and 1 < len(means) < len(of):
            ax.plot(means["number"], means["value"], color=look.colour, ls=look.line, lw=1.2, alpha=0.75)
    if few:
        label_ticks(ax.xaxis, levels)


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
    ax.set_xticks(range(len(settings)), [broken(setting, max(8, 60 // len(settings))) for setting in settings])
