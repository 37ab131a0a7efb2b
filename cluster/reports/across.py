"""Summarises methods over collections and rankers: what holds of a policy and not of one place alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from cluster.output.methods import evaluations, is_learned, measurements
from cluster.reports.canvas import INK, grid, looks, name_axes
from cluster.reports.page import Markup, drawn, rendered, table
from cluster.reports.sequential import paired

Floats = NDArray[np.float64]
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against", "place"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "heterogeneity", "next_low", "next_high"), pl.Float64),
    "places": pl.Int64,
    "pairs": pl.Int64,
}
"""Columns of across.parquet."""
ALL = "all"
"""The place of the row that sums up the others."""


class Pooled(NamedTuple):
    """What several places say together.

    Args:
        mean: over places, of which there are more than were seen.
        low, high: its 95% interval.
        between: standard deviation of the true differences between places.
        next_low, next_high: 95% interval of the true difference at a place not seen yet.
    """

    mean: float
    low: float
    high: float
    between: float
    next_low: float
    next_high: float


def pool_effects(effects: Floats, variances: Floats) -> Pooled:
    """Random effects: places differ in truth, and each is measured with an error of its own.

    The variance between places is DerSimonian and Laird's (1986), the interval Hartung and Knapp's (2001), that of the
    next place Higgins, Thompson and Spiegelhalter's (2009).

    Args:
        effects, variances: of two places or more.
    """
    count = len(effects)
    weights = 1 / np.maximum(variances, 1e-12)
    fixed = (weights * effects).sum() / weights.sum()
    excess = (weights * (effects - fixed) ** 2).sum() - (count - 1)
    between = max(0.0, excess / (weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (np.maximum(variances, 1e-12) + between)
    mean = float((weights * effects).sum() / weights.sum())
    error = float(np.sqrt((weights * (effects - mean) ** 2).sum() / ((count - 1) * weights.sum())))
    error = max(error, float(np.sqrt(1 / weights.sum())))  # never less sure than a fixed effect would be
    reach = float(stats.t.isf(0.025, count - 1)) * error
    further = float(stats.t.isf(0.025, max(count - 2, 1))) * float(np.sqrt(between + error**2))
    return Pooled(mean, mean - reach, mean + reach, float(np.sqrt(between)), mean - further, mean + further)


def across(trials: pl.DataFrame) -> pl.DataFrame:
    """Compare each method with one reference at every place (a collection and ranker), and over all of them.

    The reference is the method that is not learned, is there at all places, and leads by its mean over them. Of the
    leading measure and origin.

    Args:
        trials: the frame of `trials.parquet`.

    Returns:
        The columns of SCHEMA, a row a method and place, and one for all of them; empty with fewer than two places.
    """
    candidates, measure = evaluations(trials)[0]
    every = measurements(trials).filter(candidates=candidates, measure=measure).drop_nulls("value")
    places: dict[str, dict[str, dict[int, float]]] = {}
    learned: set[str] = set()
    for (collection, ranker, name), own in every.partition_by("collection", "ranker", "method", as_dict=True).items():
        places.setdefault(f"{ranker} on {collection}", {})[str(name)] = dict(own.select("seed", "value").rows())
        learned |= {str(name)} if is_learned(own.row(0, named=True)) else set()
    common = set.intersection(*map(set, places.values())) - learned if len(places) > 1 else set()
    if not common:
        return pl.DataFrame(schema=SCHEMA)
    means = {
        name: float(np.mean([np.mean(list(methods[name].values())) for methods in places.values()])) for name in common
    }
    reference = min(common, key=lambda name: (-means[name], name))
    head = {"candidates": candidates, "measure": measure, "against": reference}
    rows: list[dict[str, Any]] = []
    for method in sorted({name for methods in places.values() for name in methods} - {reference}):
        effects, variances, pairs = [], [], 0
        for place, methods in sorted(places.items()):
            found = paired(methods[method], methods[reference]) if method in methods else np.zeros(0)
            if len(found) < 2:
                continue
            error = float(found.std(ddof=1) / np.sqrt(len(found)))
            reach = float(stats.t.isf(0.025, len(found) - 1)) * error
            mean = float(found.mean())
            told = {"place": place, "difference": mean, "low": mean - reach, "high": mean + reach}
            rows.append(head | {"method": method, "places": 1, "pairs": len(found)} | told)
            effects.append(mean)
            variances.append(error**2)
            pairs += len(found)
        if len(effects) > 1:
            pooled = pool_effects(np.array(effects), np.array(variances))
            told = {"place": ALL, "difference": pooled.mean, "low": pooled.low, "high": pooled.high}
            told |= {"heterogeneity": pooled.between, "next_low": pooled.next_low, "next_high": pooled.next_high}
            rows.append(head | {"method": method, "places": len(effects), "pairs": pairs} | told)
    return pl.DataFrame(rows, schema=SCHEMA)


def draw(found: pl.DataFrame) -> Figure | None:
    """Draw a forest: each method's difference at every place, and over all; None where there are no two places."""
    methods = found.filter(place=ALL).sort("difference")["method"].to_list()
    if not methods:
        return None
    places = found.filter(pl.col("place") != ALL)["place"].unique().sort().to_list()
    figure, (ax,) = grid([""], [""], 0.8 + 0.17 * len(methods) * (len(places) + 2))
    styles, ticks, names = looks(methods), [], []
    y = 0.0
    for method in methods:
        look = styles[method]
        for place in [ALL, *reversed(places)]:
            rows = found.filter(method=method, place=place).rows(named=True)
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
    low, high = (float(str(value)) for value in (found["low"].min(), found["high"].max()))
    ax.set_xlim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    ax.set_yticks(ticks, names)
    ax.tick_params(axis="y", length=0)
    name_axes(ax, f"difference of {found[0, 'measure']} from {found[0, 'against']}", "")
    return figure


def section(found: pl.DataFrame, figure: Figure | None) -> Markup:
    """The part of the report, with what `draw` drew; nothing where there are no two places."""
    if figure is None:
        return Markup("")
    rows = [
        [
            *(row["method"], row["places"], row["pairs"], f"{row['difference']:+.4f}"),
            f"{row['low']:+.4f} to {row['high']:+.4f}",
            *(f"{row['heterogeneity']:.4f}", f"{row['next_low']:+.4f} to {row['next_high']:+.4f}"),
        ]
        for row in found.filter(place=ALL).sort("difference", descending=True).iter_rows(named=True)
    ]
    head = ["method", "places", "pairs", "difference", "95% interval", "between places", "at the next place"]
    caption = "Diamonds and thick lines sum up the places below them; dotted is where the next place would lie."
    return rendered(
        "across.html", table=table(head, rows), figure=drawn("across", figure, caption), against=found[0, "against"],
        measure=found[0, "measure"], candidates=found[0, "candidates"],
    )  # fmt: skip
