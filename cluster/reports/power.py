"""Says from the spread of runs how many seeds it takes to see a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from cluster.output.methods import evaluations, is_learned, measurements
from cluster.reports.canvas import grid, legend, looks, name_axes, section_titles
from cluster.reports.page import Markup, drawn, rendered, table
from cluster.reports.sequential import ALPHA, Rule, best_baseline, paired
from ranking.evaluation.anytime import p_values

POWER = 0.8
DIFFERENCES = (0.01, 0.02, 0.05)
CURVE = tuple(float(f"{difference:.3g}") for difference in np.geomspace(0.002, 0.1, 15))
MOST = 1000
"""Seeds that are tried for a test once; a sequential one is tried with 200."""
STUDIES, LONGEST = 200, 200
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "method", "against"), pl.String),
    "pairs": pl.Int64,
    "spread": pl.Float64,
    "difference": pl.Float64,
    **dict.fromkeys(("seeds", "seeds_of_many", "seeds_sequential"), pl.Int64),
}
"""Columns of power.parquet; a number of seeds is null where it is larger than what is tried."""


def power(trials: pl.DataFrame, rule: Rule | None = None) -> pl.DataFrame:
    """Seeds that it takes to see differences, from how those of the runs so far spread, paired by seed.

    Args:
        trials: the frame of `trials.parquet`, of a pilot or an earlier study.
        rule: of a sequential comparison.

    Returns:
        A row a method (beside the best baseline) and difference: `seeds` of a paired t-test at .05 with a power of 80%;
        `seeds_of_many` where as many methods are compared as are here, the first of Holm's steps; `seeds_sequential`
        after which four of five sequential comparisons are decided, of studies resampled from these runs.
    """
    rule = rule or Rule()
    candidates, measure = evaluations(trials)[0]
    every = measurements(trials).filter(candidates=candidates, measure=measure).drop_nulls("value")
    rows: list[dict[str, Any]] = []
    for (collection, ranker), family in every.partition_by("collection", "ranker", as_dict=True).items():
        values = {
            str(method): dict(own.select("seed", "value").rows())
            for (method,), own in family.partition_by("method", as_dict=True).items()
        }
        able = {str(row["method"]) for row in family.iter_rows(named=True) if not is_learned(row)}
        place = {"collection": collection, "ranker": ranker, "candidates": candidates, "measure": measure}
        pairs = max(len(values) * (len(values) - 1) // 2, 1)
        for method in sorted(values):
            other = best_baseline(values, able, method)
            found = paired(values[method], values[other]) if other else np.zeros(0)
            if len(found) < 3 or np.ptp(found) < 1e-12:
                continue
            spread = float(found.std(ddof=1))
            told = {"method": method, "against": other, "pairs": len(found), "spread": spread}
            for difference in sorted({*CURVE, *DIFFERENCES}):
                needed = {
                    "seeds": seeds_of_a_test(difference, spread, ALPHA),
                    "seeds_of_many": seeds_of_a_test(difference, spread, ALPHA / max(len(values) - 1, 1)),
                    "seeds_sequential": _sequential(found, difference, rule, pairs)
                    if difference in DIFFERENCES
                    else None,
                }
                rows.append(place | told | {"difference": difference} | needed)
    return pl.DataFrame(rows, schema=SCHEMA).sort("collection", "ranker", "method", "difference")


def seeds_of_a_test(difference: float, spread: float, alpha: float, power: float = POWER) -> int | None:
    """Pairs with which a two-tailed paired t-test finds a difference with this power; None above `MOST`."""
    n = np.arange(2, MOST + 1)
    critical = stats.t.isf(alpha / 2, n - 1)
    centre = difference / spread * np.sqrt(n)
    found = stats.nct.sf(critical, n - 1, np.minimum(centre, 30.0))
    enough = np.flatnonzero((found >= power) | (centre > 30.0 + critical))
    return int(n[enough[0]]) if len(enough) else None


def _sequential(found: NDArray[np.float64], difference: float, rule: Rule, pairs: int) -> int | None:
    """Seeds after which 80% of the studies that are resampled from these differences, moved, are decided."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(found - found.mean() + difference, (LONGEST, STUDIES))
    bound = rule.of_spread(float(found.std(ddof=1)))
    above, below = p_values(drawn, 0.0, -bound, bound)
    share = (2 * np.minimum(above, below) <= ALPHA / pairs).mean(1)
    enough = np.flatnonzero(share >= POWER)
    pilot = rule.first if rule.clip is None else 0
    return max(int(enough[0]) + 1 + pilot, rule.first) if len(enough) else None


def curve(found: pl.DataFrame) -> Figure | None:
    """Draw the seeds that a t-test takes against the difference, a line a method; None where nothing is known."""
    known = found.drop_nulls("seeds")
    if known.is_empty():
        return None
    sections = known.select("collection", "ranker").unique(maintain_order=True).rows()
    figure, axes = grid(section_titles(sections), [""], height=2.9)
    styles = looks(known["method"])
    for (collection, ranker), ax in zip(sections, axes, strict=True):
        here = known.filter(collection=collection, ranker=ranker)
        for own in here.partition_by("method", maintain_order=True):
            look = styles[own[0, "method"]]
            ax.plot(own["difference"], own["seeds"], color=look.colour, ls=look.line, lw=1.6)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ticks = [0.002, 0.005, *DIFFERENCES, 0.1]
        ax.set_xticks(ticks, [f"{tick:g}".replace("0.", ".", 1) for tick in ticks])
        ax.set_xticks([], minor=True)
        most = max(here["seeds"].to_list())
        counts = [count for count in (2, 5, 10, 20, 50, 100, 200, 500, 1000) if count <= 2 * most]
        ax.set_yticks(counts, list(map(str, counts)))
        ax.set_yticks([], minor=True)
        name_axes(ax, f"difference of {known[0, 'measure']}", "seeds")
    legend(figure, styles, known["method"])
    return figure


def section(found: pl.DataFrame, figure: Figure | None) -> Markup:
    """The part of the report, with the `curve`; nothing where no pair of methods has three seeds."""
    if figure is None:
        return Markup("")
    rows = []
    for own in found.partition_by("ranker", "method", maintain_order=True):
        rows.append([own[0, "ranker"], own[0, "method"], own[0, "pairs"], *cells(own)])
    head = ["ranker", "method", "pairs", "spread of differences", *(f"for {d:g}" for d in DIFFERENCES)]
    caption = "Seeds of a paired t-test with a power of 80%, by the difference that there is to see."
    return rendered("power.html", table=table(head, rows, left=2), figure=drawn("power", figure, caption))


def cells(own: pl.DataFrame) -> list[str]:
    """The spread of a method's differences, and for each of DIFFERENCES the three numbers of seeds."""
    at = {row["difference"]: row for row in own.iter_rows(named=True)}
    tried = {"seeds": MOST, "seeds_of_many": MOST, "seeds_sequential": LONGEST}
    of = [[_count(at[each][name], most) for name, most in tried.items()] for each in DIFFERENCES]
    return [f"{own[0, 'spread']:.4f}", *(" / ".join(counts) for counts in of)]


def _count(seeds: int | None, most: int) -> str:
    return f"> {most:,}" if seeds is None else str(seeds)
