"""Draws the figures of a pooling study: what is found when, how well judgements rank the runs, when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pyrite.analysis.reports.canvas import INK, STYLE, Look, grid, legend, looks, name_axes
from pyrite.analysis.statistics.pool_summary import over_seeds

NAMED, MOST_COLOURS = 3, 6
"""The methods with a name among more than so many, and the methods up to which all have a colour and a name."""
GREY = "#b9bec4"
Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def found(totals: pl.DataFrame) -> Figure:
    """Draw relevant documents found against judgements, a panel per pool (the paper's figure 1).

    Names are in the panel, the best method first; of more than six methods all but the best three are grey.
    """
    pools, styles = _pools(totals), looks(totals["method"])
    figure, axes = grid([""], pools, 4.2)
    for pool, ax in zip(pools, axes, strict=True):
        curves = _curves(totals, pool)
        best = sorted(curves, key=lambda method: (-float(np.trapezoid(curves[method][1], curves[method][0])), method))
        for method, curve in curves.items():
            faint = len(curves) > MOST_COLOURS and method not in best[:NAMED]
            colour = GREY if faint else styles[method].colour
            width, front = (1.0, 1) if faint else (2.0, 2)
            ax.plot(*curve, color=colour, ls=styles[method].line, lw=width, zorder=front, label=method)
        _name_best(ax, best)
        name_axes(ax, "judgements per topic", "relevant documents found per topic")
        ax.set_xlim(0)
        ax.set_ylim(0)
    return figure


def _name_best(ax: Axes, best: Sequence[str]) -> None:
    """Name the lines within a panel, in the order of their methods; of many the best and all others together."""
    handles, names = ax.get_legend_handles_labels()
    lines = dict(zip(names, handles, strict=True))
    shown = best if len(best) <= MOST_COLOURS else best[:NAMED]
    named = {name: lines[name] for name in shown} | ({"others": lines[best[-1]]} if len(shown) < len(best) else {})
    with matplotlib.rc_context(STYLE):
        ax.legend([*named.values()], [*named], loc="lower right", frameon=False)


def gained(totals: pl.DataFrame, baseline: str) -> Figure | None:
    """Draw how much more each method has found than the baseline, by judgements on a log scale; None without it."""
    pools, styles = _pools(totals.filter(method=baseline)), looks(totals["method"])
    if not pools:
        return None
    figure, axes = grid([""], pools, 3.6)
    for pool, ax in zip(pools, axes, strict=True):
        curves = _curves(totals, pool)
        zero = curves.pop(baseline)
        for method, (budget, mean) in curves.items():
            gain = mean - np.interp(budget, *zero)
            ax.plot(budget, gain, color=styles[method].colour, ls=styles[method].line, lw=1.5)
        ax.axhline(0, color=styles[baseline].colour, ls=styles[baseline].line, lw=1.5)
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, -high), high)
        _log_budgets(ax)
        ax.set_xlim(max(1, zero[0].max() / 1000))
        name_axes(ax, "judgements per topic", f"found beyond {baseline}")
    legend(figure, styles, totals["method"])
    return figure


def ranking_quality(table: pl.DataFrame) -> Figure:
    """Draw how well judgements rank the runs: τ and τ_AP against the budget, by AP and by infAP."""
    columns = {"tau": "τ by AP", "tau_ap": "τ_AP by AP", "inf_tau": "τ by infAP", "inf_tau_ap": "τ_AP by infAP"}
    means = over_seeds(table, "budget")
    figure, panels = _by_budget(means, columns)
    for (pool, column), ax in panels.items():
        lows = means.filter(pool=pool).group_by("method").agg(pl.col(column).min())[column].drop_nulls()
        if len(lows):
            ax.set_ylim(float(np.quantile(lows, 0.1)) - 0.01, 1.01)
        _log_budgets(ax)
    return figure


def _by_budget(means: pl.DataFrame, columns: Mapping[str, str]) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """Draw titled columns against the budget, a row of panels per pool and a line per method."""
    pools, styles = _pools(means), looks(means["method"])
    figure, axes = grid(pools, list(columns.values()), 2.7)
    panels = dict(zip(product(pools, columns), axes, strict=True))
    for (pool, column), ax in panels.items():
        for (method,), part in means.filter(pool=pool).partition_by("method", as_dict=True).items():
            part = part.sort("budget").drop_nulls(column)
            _line(ax, styles[str(method)], part["budget"], part[column])
        name_axes(ax, "judgements per topic", "")
    legend(figure, styles, means["method"])
    return figure, panels


def _log_budgets(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")


def stopping(table: pl.DataFrame) -> Figure:
    """Draw the saving and cost of each stopping rule: recall against the share of the pool that need not be judged."""
    pools, styles = _pools(table), looks(table["method"])
    rules = table["rule"].unique(maintain_order=True).to_list()
    figure, axes = grid(pools, rules, 2.9)
    means = over_seeds(table, "rule")
    for (pool, rule), ax in zip(product(pools, rules), axes, strict=True):
        for row in means.filter(pool=pool, rule=rule).drop_nulls("recall").iter_rows(named=True):
            look = styles[row["method"]]
            ax.plot(row["saved"], row["recall"], look.marker, color=look.colour, ms=6)
        name_axes(ax, "share of the pool not judged", "recall")
        ax.set_xlim(-0.03, 1.03)
        ax.set_ylim(-0.03, 1.03)
    legend(figure, styles, table["method"], lines=False)
    return figure


def estimates(table: pl.DataFrame) -> Figure:
    """Draw the estimates of sampling orders: relevant documents by seed, MAP's error, and how often intervals hold."""
    pools, styles = _pools(table), looks(table["method"])
    titles = ["relevant documents, estimated", "MAP, root mean squared error", "MAP, truth within the 95% interval"]
    figure, axes = grid(pools, titles, 2.9)
    for row, pool in enumerate(pools):
        of_pool = table.filter(pool=pool)
        relevant, error, covered = axes[3 * row : 3 * row + 3]
        relevant.axhline(of_pool["relevant_true"][0], color=INK, lw=0.8)
        covered.axhline(0.95, color=INK, lw=0.8)
        for (method,), part in of_pool.partition_by("method", as_dict=True).items():
            look = styles[str(method)]
            relevant.plot(part["budget"], part["relevant"], look.marker, color=look.colour, ms=3, alpha=0.5)
            means = part.group_by("budget").agg(pl.col("map_rmse", "map_covered").mean()).sort("budget")
            _line(error, look, means["budget"], means["map_rmse"])
            _line(covered, look, means["budget"], means["map_covered"])
        relevant.set_ylim(0)
        error.set_ylim(0)
        covered.set_ylim(0, 1.02)
        for ax in (relevant, error, covered):
            _log_budgets(ax)
            ax.xaxis.set_minor_formatter(NullFormatter())
            name_axes(ax, "judgements per topic", "")
    legend(figure, styles, table["method"])
    return figure


def reuse(table: pl.DataFrame) -> Figure:
    """Draw how many ranks a run loses, on average and at worst, when its team takes no part in the pool."""
    fallen = pl.col("fallen")
    means = table.group_by("pool", "method", "budget", maintain_order=True).agg(mean=fallen.mean(), most=fallen.max())
    columns = {"mean": "ranks lost, mean over runs", "most": "ranks lost by the run that loses most"}
    figure, panels = _by_budget(means, columns)
    for ax in panels.values():
        ax.axhline(0, color=INK, lw=0.8)
    return figure


def _line(ax: Axes, look: Look, x: pl.Series, y: pl.Series) -> None:
    ax.plot(x, y, color=look.colour, ls=look.line, marker=look.marker, ms=3, lw=1.3)


def _pools(table: pl.DataFrame) -> Sequence[str]:
    return table["pool"].unique(maintain_order=True).to_list()


def _curves(totals: pl.DataFrame, pool: str) -> Curves:
    """Means over seeds, by method."""
    means = totals.filter(pool=pool).group_by("method", "budget").agg(pl.col("found").mean()).sort("method", "budget")
    parts = means.partition_by("method", as_dict=True)
    return {str(method): (part["budget"].to_numpy(), part["found"].to_numpy()) for (method,), part in parts.items()}
