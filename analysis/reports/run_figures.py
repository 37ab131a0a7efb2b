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
from scipy.stats import gaussian_kde

from pyrite.analysis.methods import (
    AGENTS,
    CHECKPOINT,
    LEARN,
    evaluations,
    factors,
    first_stage_of,
    measurements,
    swept,
    with_factors,
    with_methods,
)
from pyrite.analysis.reports.canvas import INK, Look, family_grid, grid, label_ticks, legend, looks, name_axes
from pyrite.analysis.reports.labels import broken, by_family, distinct_names
from pyrite.analysis.reports.labels import value as printed
from pyrite.analysis.statistics.oscillation import DEV_LOSS, dev_losses

LEVELS = 6  # a number swept over up to this many values has a tick at each, and its means joined


def _measured(trials: pl.DataFrame, measure: str) -> tuple[pl.DataFrame, dict[str, Look], list[str]]:
    """Return the finished runs by one measure, the look of every method, and the origins of candidates."""
    every = measurements(trials)
    runs = every.filter(measure=measure).drop_nulls("value")
    runs = runs.sort("collection", "ranker", "method", "seed", "run", maintain_order=True)
    return runs, looks(every["method"]), [origin for origin, name in evaluations(trials) if name == measure]


def _by_origin(
    runs: pl.DataFrame, origins: list[str], height: float
) -> tuple[Figure, list[tuple[pl.DataFrame, str, Axes]]]:
    """Make a figure with a panel per ranker and origin; return it, and each panel with its ranker's runs and origin."""
    figure, rows = family_grid(runs, [f"{origin} candidates" for origin in origins], height)
    return figure, [(family, origin, ax) for family, axes in rows for origin, ax in zip(origins, axes, strict=False)]


def density(trials: pl.DataFrame, measure: str) -> Figure:
    """Draw the kernel density of each method's runs (Cohen et al. 2019, figure 4), every run as a tick below.

    A method with fewer than three runs, or with equal runs, has only its ticks. The bandwidth is Scott's,
    but at least a fiftieth of the panel's range, so that one steady method does not flatten all others.
    """
    every, styles, origins = _measured(trials, measure)
    figure, panels = _by_origin(every, origins, height=2.7)
    for family, origin, ax in panels:
        here = family.filter(candidates=origin)
        if not here.is_empty():
            _densities(ax, here, styles)
        name_axes(ax, measure, "density")
    legend(figure, styles, every["method"])
    return figure


def _densities(ax: Axes, here: pl.DataFrame, looks: dict[str, Look]) -> None:
    every = here["value"].to_numpy()
    low, high, width = every.min(), every.max(), np.ptp(every) or 0.01
    x = np.linspace(max(low - width / 4, min(low, 0.0)), min(high + width / 4, max(high, 1.0)), 200)
    methods = here.partition_by("method", maintain_order=True)
    peak = 0.0
    for runs in methods:
        look, values = looks[runs[0, "method"]], runs["value"].to_numpy()
        if len(values) >= 3 and np.ptp(values) > 1e-12:
            kernel = gaussian_kde(values, max(len(values) ** -0.2, width / 50 / values.std(ddof=1)))(x)
            seen = kernel > kernel.max() / 1000
            ax.plot(x[seen], kernel[seen], color=look.colour, ls=look.line, lw=1.8)
            ax.fill_between(x[seen], kernel[seen], color=look.colour, alpha=0.08, lw=0)
            peak = max(peak, kernel.max())
    # Ticks are below zero, a line per method, so that those of equal runs do not hide each other.
    step = min(0.045, 0.5 / len(methods)) * (peak or 1.0)
    for i, runs in enumerate(methods):
        at = np.full(len(runs), -(i + 0.9) * step)
        ax.plot(runs["value"], at, "|", color=looks[runs[0, "method"]].colour, ms=5.5, mew=1.1)
    ax.axhline(0, color=INK, lw=0.8)
    ax.set_ylim(-(len(methods) + 0.6) * step, 1.06 * (peak or step))
    ax.set_xlim(x[0], x[-1])
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def runs(trials: pl.DataFrame, summary: pl.DataFrame, measure: str) -> Figure:
    """Draw every run of each method, its mean and its bootstrap interval, candidate origins side by side.

    Methods are in the order of their means over the first origin, in all panels of their ranker. The best mean of a
    panel is a star.
    """
    every, styles, origins = _measured(trials, measure)
    rows = summary.filter(pl.col("runs") > 0, measure=measure)
    most = max((family["method"].n_unique() for _, family in by_family(every)), default=1)
    names = distinct_names(rows.filter(pl.col("ranker") != "bm25")["method"]).values()
    lines = max((1 + broken(name).count("\n") for name in names), default=1)
    figure, panels = _by_origin(every, origins, height=1.0 + max(0.25, 0.15 * lines) * most)
    jitter = np.random.default_rng(0)
    for family, origin, ax in panels:
        collection, ranker = family.select("collection", "ranker").row(0)
        section = rows.filter(collection=collection, ranker=ranker)
        methods = section["method"].unique(maintain_order=True).reverse().to_list()
        labels = list(map(broken, distinct_names(methods).values()))
        means = section.filter(candidates=origin)
        for row in means.iter_rows(named=True):
            y = methods.index(row["method"])
            values = family.filter(candidates=origin, method=row["method"])["value"]
            look, at = styles[row["method"]], jitter.uniform(-0.16, 0.16, len(values)) * (len(values) > 3)
            ax.scatter(values, y + 0.12 + at, s=22, color=look.colour, marker=look.marker, alpha=0.7, lw=0)
            if row["ci_low"] is not None:
                ax.plot((row["ci_low"], row["ci_high"]), (y - 0.2,) * 2, color=INK, lw=1.6, solid_capstyle="butt")
            best = row["mean"] == means["mean"].max()
            ax.plot(row["mean"], y - 0.2, color=INK, marker="*" if best else "|", ms=10 if best else 8, mew=1.4)
        alone = rows.filter(collection=collection, ranker="bm25", candidates=origin)["mean"].to_list()
        name_axes(ax, f"{measure}  ({first_stage_of(origin)} alone: {printed(alone[0])})" if alone else measure, "")
        low, high = ax.get_xlim()
        for mean in alone:
            if low - (high - low) / 4 <= mean <= high + (high - low) / 4:  # elsewhere it would squeeze the runs
                ax.axvline(mean, color=INK, lw=1, ls="--")
        first = origin == origins[0]
        ax.set_yticks(range(len(methods)), labels if first else [""] * len(methods))
        ax.set_ylim(-0.6, len(methods) - 0.4)
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_locator(MaxNLocator(6))
    return figure


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
    figure, rows = family_grid(every, list(names.values()), height=2.6)
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
    lengths = sorted(len(values) for values in runs if values)
    if not lengths:
        return
    epochs, half = lengths[-1], lengths[(len(lengths) - 1) // 2]
    held = np.stack([np.pad(values, (0, epochs - len(values)), mode="edge") for values in runs if values])
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
    # Rankers from several checkpoints have panels of their own, and agents are no hyperparameter.
    others = [CHECKPOINT, *AGENTS, *LEARN]
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
