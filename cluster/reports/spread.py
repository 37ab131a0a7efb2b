"""Compares methods by more than their means: spread, which beats which, the best of k, and the risk of a dud."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from cluster.output.methods import evaluations, is_learned, measurements
from cluster.reports.canvas import INK, grid, legend, looks, name_axes, section_titles
from cluster.reports.html_tables import probability
from cluster.reports.page import Markup, drawn, rendered, table
from cluster.reports.terminal_table import figure as printed
from ranking.evaluation.significance import holm

Floats = NDArray[np.float64]
BEST_OF = (1, 2, 3, 5, 10)
RESAMPLES = 2000
SHARE = 0.5
"""Of the best baseline's median: below it a run counts as one that never learned, unless a line is named."""
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "method", "against"), _text),
    "runs": pl.Int64,
    **dict.fromkeys(("std", "against_std", "brown_forsythe_p", "brown_forsythe_p_holm"), _number),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high"), _number),
    **dict.fromkeys(("beats", "beats_low", "beats_high"), _number),
    **{f"best_of_{k}": _number for k in BEST_OF},
    **dict.fromkeys(("line", "below", "below_low", "below_high"), _number),
}
"""Columns of spread.parquet."""


def spread(trials: pl.DataFrame, line: float | None = None, seed: int = 0) -> pl.DataFrame:
    """Compare the runs of each method with those of the best baseline, by the leading measure.

    Args:
        trials: the frame of `trials.parquet`.
        line: below which a run counts as one that never learned; None: half of the best baseline's median.
        seed: of the bootstrap.

    Returns:
        The columns of SCHEMA: `ratio` of the standard deviations with a bootstrap interval of 95%, beside the test of
        Brown and Forsythe 1974 (Levene's with medians); `beats`, the probability that a run of the method is better
        than one of `against`, ties counting half, with a bootstrap interval; `best_of_k`, what the best of k runs
        reaches on average (Dodge et al. 2019, "Show your work", equation 3); `below`, the share of runs below the line,
        failed ones among them, with Wilson's interval. What can't be computed is null.
    """
    rows: list[dict[str, Any]] = []
    for candidates, measure in evaluations(trials):
        if measure != evaluations(trials)[0][1]:
            continue
        every = measurements(trials).filter(candidates=candidates, measure=measure)
        for (collection, ranker), family in every.partition_by("collection", "ranker", as_dict=True).items():
            place = {"collection": collection, "ranker": ranker, "candidates": candidates, "measure": measure}
            rows += [place | row for row in _family(family, line, [seed, crc32(f"{place}".encode())])]
    order = ["collection", "ranker", "candidates", "method"]
    return pl.DataFrame(rows, schema=SCHEMA).sort(order)


def _family(family: pl.DataFrame, line: float | None, seed: list[int]) -> list[dict[str, Any]]:
    values: dict[str, Floats] = {}
    failed: dict[str, int] = {}
    able: list[str] = []
    for (name,), own in family.partition_by("method", as_dict=True).items():
        method = str(name)
        values[method] = own["value"].drop_nulls().sort().to_numpy()
        failed[method] = int((own["status"] == "failed").sum())
        able += [] if is_learned(own.row(0, named=True)) or not len(values[method]) else [method]
    ranked = sorted(able, key=lambda method: (-values[method].mean(), method))
    if line is None and ranked:
        line = SHARE * float(np.median(values[ranked[0]]))
    rows = []
    for method in sorted(values):
        other = next((name for name in ranked if name != method), None)
        rng = np.random.default_rng([*seed, crc32(method.encode())])
        row: dict[str, Any] = {"method": method, "against": other, "runs": len(values[method])}
        row |= {f"best_of_{k}": best_of(values[method], k) for k in BEST_OF}
        row |= _below(values[method], failed[method], line)
        row |= _beside(values[method], values[other], rng) if other is not None else {}
        rows.append(row)
    _adjust(rows)
    return rows


def _adjust(rows: list[dict[str, Any]]) -> None:
    """Holm's adjustment; the best two are each other's opponents, which is one test."""
    p = {frozenset((row["method"], row["against"])): row.get("brown_forsythe_p") for row in rows}
    tested = [pair for pair, value in p.items() if value is not None]
    adjusted = dict(zip(tested, holm(np.array([p[pair] for pair in tested], np.float64)), strict=True))
    for row in rows:
        found = adjusted.get(frozenset((row["method"], row["against"])))
        row["brown_forsythe_p_holm"] = None if found is None else float(found)


def best_of(values: Floats, k: int) -> float | None:
    """What the best of k runs reaches on average, drawn from these with replacement; `values` ascend."""
    if not len(values):
        return None
    at_most = np.arange(len(values) + 1) / len(values)
    return float(values @ np.diff(at_most**k))


def beats(a: Floats, b: Floats) -> float:
    """The probability that a run of `a` is better than one of `b`, ties counting half."""
    ordered, pairs = np.sort(b), len(a) * len(b)
    better, as_good = (np.searchsorted(ordered, a, side).sum() for side in ("left", "right"))
    return float((better / pairs + as_good / pairs) / 2)


def _counts(drawn: NDArray[np.int64]) -> Floats:
    """How often each of as many was drawn in each row: float64 [rows, columns]."""
    rows, columns = drawn.shape
    places = np.arange(rows)[:, None] * columns + drawn
    return np.bincount(places.ravel(), minlength=drawn.size).reshape(rows, columns).astype(np.float64)


def _beside(a: Floats, b: Floats, rng: np.random.Generator) -> dict[str, float | None]:
    if min(len(a), len(b)) < 2:
        return {}
    drawn = [rng.choice(len(each), (RESAMPLES, len(each))) for each in (a, b)]
    of_a, of_b = a[drawn[0]], b[drawn[1]]
    stds = of_a.std(1, ddof=1), of_b.std(1, ddof=1)
    able = (stds[0] > 0) & (stds[1] > 0)
    counts = [_counts(each) for each in drawn]
    won = ((counts[0] @ np.heaviside(a[:, None] - b, 0.5)) * counts[1]).sum(1) / (len(a) * len(b))
    std, other = float(a.std(ddof=1)), float(b.std(ddof=1))
    row: dict[str, float | None] = {"std": std, "against_std": other, "beats": beats(a, b)}
    row |= dict(zip(("beats_low", "beats_high"), map(float, np.quantile(won, [0.025, 0.975])), strict=True))
    if std > 0 and other > 0:
        row["ratio"] = std / other
        interval = np.quantile(stds[0][able] / stds[1][able], [0.025, 0.975])
        row |= dict(zip(("ratio_low", "ratio_high"), map(float, interval), strict=True))
        if min(len(a), len(b)) > 2:
            p = float(stats.levene(a, b, center="median").pvalue)
            row["brown_forsythe_p"] = None if np.isnan(p) else p
    return row


def _below(values: Floats, failed: int, line: float | None) -> dict[str, float | None]:
    count = len(values) + failed
    if line is None or not count:
        return {}
    found = int((values < line).sum()) + failed
    interval = stats.binomtest(found, count).proportion_ci(method="wilson")
    return {"line": line, "below": found / count, "below_low": interval.low, "below_high": interval.high}


def draw(found: pl.DataFrame) -> Figure | None:
    """Draw all four beside each other, a row a ranker, of the leading origin; None where nothing can be compared."""
    here = found.filter(candidates=found[0, "candidates"]) if len(found) else found
    here = here.drop_nulls("beats")
    if here.is_empty():
        return None
    sections = here.select("collection", "ranker").unique(maintain_order=True).rows()
    titles = ["spread", "a run beats one of the other", "best of k runs", "never learned"]
    most = here.group_by("collection", "ranker").len()["len"].max()
    figure, axes = grid(section_titles(sections), titles, 1.3 + 0.24 * int(str(most)))
    styles, measure = looks(here["method"]), here[0, "measure"]
    for row, (collection, ranker) in enumerate(sections):
        own = here.filter(collection=collection, ranker=ranker).sort("best_of_1")
        ratio, won, best, risk = axes[4 * row : 4 * row + 4]
        for y, method in enumerate(own.iter_rows(named=True)):
            look = styles[method["method"]]
            for ax, name in ((ratio, "ratio"), (won, "beats"), (risk, "below")):
                if method[name] is not None:
                    ax.plot((method[f"{name}_low"], method[f"{name}_high"]), (y, y), color=look.colour, lw=1.6)
                    ax.plot(method[name], y, color=look.colour, marker=look.marker, ms=5)
            reached = [method[f"best_of_{k}"] for k in BEST_OF]
            best.plot(BEST_OF, reached, color=look.colour, ls=look.line, marker=look.marker, ms=3, lw=1.2)
        for ax, at in ((ratio, 1.0), (won, 0.5)):
            ax.axvline(at, color=INK, lw=0.8, ls="--")
        for ax in (ratio, won, risk):
            ax.set_yticks([])
            ax.set_ylim(-0.6, len(own) - 0.4)
        ratio.set_xscale("log")
        ratio.set_xticks(ticks := _around_one(own), [f"{tick:g}" for tick in ticks])
        ratio.set_xticks([], minor=True)
        won.set_xlim(-0.03, 1.03)
        risk.set_xlim(-0.03, 1.03)
        best.set_xticks(BEST_OF, list(map(str, BEST_OF)))
        name_axes(ratio, "ratio of deviations", "")
        name_axes(won, "probability", "")
        name_axes(best, "k", measure)
        name_axes(risk, f"share below {printed(own[0, 'line'])}" if own[0, "line"] is not None else "", "")
    legend(figure, styles, here["method"])
    return figure


def _around_one(own: pl.DataFrame) -> list[float]:
    """Ticks of ratios: powers of two, or of ten where they span more."""
    low, high = own["ratio_low"].min(), own["ratio_high"].max()
    if low is None or high is None:
        return [1.0]
    bounds = max(float(str(low)), 1e-4), float(str(high))
    base = 10.0 if bounds[1] / bounds[0] > 100 else 2.0
    first, last = (int(np.floor(np.log(bound) / np.log(base))) for bound in bounds)
    return [base**power for power in range(min(first, 0), max(last + 1, 0) + 1)][:12]


def section(found: pl.DataFrame, figure: Figure | None) -> Markup:
    """The part of the report, with what `draw` drew; nothing where no method has two runs."""
    if figure is None:
        return Markup("")

    def interval(row: dict[str, Any], name: str, form: str) -> str | None:
        if row[name] is None:
            return None
        return f"{row[name]:{form}} ({row[f'{name}_low']:{form}}–{row[f'{name}_high']:{form}})"

    rows = [
        [
            *(row["ranker"], row["method"], row["candidates"], row["against"]),
            *(printed(row["std"]), interval(row, "ratio", ".2f"), probability(row["brown_forsythe_p_holm"])),
            *(interval(row, "beats", ".0%"), *(printed(row[f"best_of_{k}"]) for k in (1, 5))),
            interval(row, "below", ".0%"),
        ]
        for row in found.iter_rows(named=True)
    ]
    head = ["ranker", "method", "candidates", "against", "deviation", "ratio", "p (Holm)", "beats it"]
    caption = "The leading origin, each method beside the best baseline; lines are intervals of 95%."
    return rendered(
        "spread.html", table=table([*head, "one run", "best of 5", "below the line"], rows, left=4),
        figure=drawn("spread", figure, caption), line=printed(found[0, "line"]),
    )  # fmt: skip
