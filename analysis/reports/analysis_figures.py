"""Draws the analyses of a study: variation over seeds, places, power, few judgements, differences by query."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyrite.analysis.reports.canvas import INK, family_grid, grid, label_ticks, legend, looks, name_axes
from pyrite.analysis.reports.labels import by_family, title_of, value
from pyrite.analysis.statistics.across_places import ALL
from pyrite.analysis.statistics.by_query import TIE
from pyrite.analysis.statistics.power import DIFFERENCES
from pyrite.analysis.statistics.seed_variation import BEST_OF


def variation_figure(frame: pl.DataFrame) -> Figure | None:
    """Draw the four figures of `seed_variation` side by side, a row per ranker, over the leading origin.

    None if nothing can be compared.
    """
    here = frame.filter(candidates=frame[0, "candidates"]) if len(frame) else frame
    here = here.drop_nulls("beats")
    if here.is_empty():
        return None
    titles = ["spread", "a run beats one of the other", "best of k runs", "never learned"]
    most = max(len(family) for _, family in by_family(here))
    figure, rows = family_grid(here, titles, 1.3 + 0.24 * most)
    styles, measure = looks(here["method"]), here[0, "measure"]
    for family, (ratio, won, best, risk) in rows:
        family = family.sort("best_of_1")
        for y, method in enumerate(family.iter_rows(named=True)):
            look = styles[method["method"]]
            for ax, name in ((ratio, "ratio"), (won, "beats"), (risk, "below")):
                if method[name] is not None:
                    low, high = method[f"{name}_low"], method[f"{name}_high"]
                    if low is not None:
                        ax.plot((low, low * 100 if high is None else high), (y, y), color=look.colour, lw=1.6)
                    ax.plot(method[name], y, color=look.colour, marker=look.marker, ms=5)
            reached = [method[f"best_of_{k}"] for k in BEST_OF]
            best.plot(BEST_OF, reached, color=look.colour, ls=look.line, marker=look.marker, ms=3, lw=1.2)
        for ax, at in ((ratio, 1.0), (won, 0.5)):
            ax.axvline(at, color=INK, lw=0.8, ls="--")
        for ax in (ratio, won, risk):
            ax.set_yticks([])
            ax.set_ylim(-0.6, len(family) - 0.4)
        ratio.set_xscale("log")
        label_ticks(ratio.xaxis, _around_one(family))
        won.set_xlim(-0.03, 1.03)
        risk.set_xlim(-0.03, 1.03)
        best.set_xticks(BEST_OF, list(map(str, BEST_OF)))
        name_axes(ratio, "ratio of deviations", "")
        name_axes(won, "probability", "")
        name_axes(best, "k", measure)
        name_axes(risk, f"share below {value(family[0, 'line'])}" if family[0, "line"] is not None else "", "")
    legend(figure, styles, here["method"])
    return figure


def _around_one(family: pl.DataFrame) -> list[float]:
    """Return at most six ticks of ratios, 1 among them: powers of two, or of ten if they span more."""
    low, high = family["ratio_low"].min(), family["ratio_high"].max()
    if low is None or high is None:
        return [1.0]
    bounds = max(float(str(low)), 1e-4), float(str(high))
    base = 10.0 if bounds[1] / bounds[0] > 100 else 2.0
    first, last = (int(np.floor(np.log(bound) / np.log(base))) for bound in bounds)
    powers = range(min(first, 0), max(last + 1, 0) + 1)
    return [base**power for power in powers if power % -(-len(powers) // 5) == 0]


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


def query_histogram(compared: pl.DataFrame, measure: str) -> Figure | None:
    """Draw the differences of `pyrite.analysis.statistics.by_query.best_two` as a histogram per ranker and origin."""
    drawn = compared.filter(pl.col("differences").list.len() > 0)
    if drawn.is_empty():
        return None
    origins = drawn["candidates"].unique(maintain_order=True).to_list()
    several = drawn["collection"].n_unique() > 1
    across = min(len(origins), 2)
    figure, axes = grid([""] * -(-len(drawn) // across), [""] * across, height=2.5)
    for ax in axes[len(drawn) :]:
        ax.remove()
    for ax, row in zip(axes, drawn.iter_rows(named=True), strict=False):
        d = np.array(row["differences"])
        reach = float(np.abs(d).max()) or 1.0
        ax.hist(
            [d[d < -TIE], d[np.abs(d) <= TIE], d[d > TIE]],
            bins=np.linspace(-reach, reach, 42).tolist(),  # 41 bins, so that ties are in the middle one
            color=["#D55E00", "#7F7F7F", "#0072B2"],
            alpha=0.85,
            stacked=True,
        )
        ax.axvline(float(d.mean()), color=INK, lw=1.2, ls="--")
        title = title_of(row["ranker"], row["collection"], several)
        ax.set_title(f"{title} · {row['candidates']} candidates", loc="left", fontsize=10, color=INK)
        name_axes(ax, f"{measure} of {row['first']}\nminus {row['second']}", "queries")
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure
