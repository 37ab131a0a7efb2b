"""Measures how far dev losses go up and down from epoch to epoch, and writes the report's section on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from cluster.output.methods import with_methods
from cluster.reports.html_tables import probability
from cluster.reports.page import Markup, markup, rendered, table, tag
from ranking.evaluation.significance import holm, t_test

DEV_LOSS = "curve_dev_loss"
TEXT, NUMBER, WHOLE = pl.String(), pl.Float64(), pl.Int64()
SCHEMA = {
    **dict.fromkeys(("collection", "ranker", "method"), TEXT), "runs": WHOLE,
    **dict.fromkeys(("epochs", "first", "best", "last", "variance", "variance_std"), NUMBER),
    "against": TEXT, "t_p": NUMBER, "t_p_holm": NUMBER,
}  # fmt: skip


def oscillation(trials: pl.DataFrame) -> pl.DataFrame:
    """How much dev losses oscillate, by method (Saeidi et al. 2017, figure 5, shows it and does not measure it).

    A run's figure is the variance (ddof 1) of the differences of successive dev losses: 0 where the loss changes by
    the same amount each epoch. Within a ranker each method is held against the steadiest.

    Args:
        trials: the frame of `trials.parquet`; the order of its rows does not matter.

    Returns:
        One row a collection, ranker and method with dev losses: runs that have some, their mean number of epochs, mean
        first, best and last dev loss, variance (the mean over runs of at least three epochs, null without any) and
        variance_std (the sample standard deviation), then against, the method of the least variance (null in its own
        row), t_p of Student's test and t_p_holm, adjusted for the methods of the ranker. What is not finite, or
        cannot be computed, is null.
    """
    rows: list[dict[str, Any]] = []
    for family in _curves(trials).partition_by("collection", "ranker", maintain_order=True):
        variances, own = {}, []
        for of in family.partition_by("method", maintain_order=True):
            curves = of[DEV_LOSS].to_list()
            row = of.select("collection", "ranker", "method").row(0, named=True)
            variances[row["method"]] = known = [value for value in map(_variance, curves) if math.isfinite(value)]
            row |= {"runs": len(curves), "epochs": _mean(list(map(len, curves)))}
            row |= {"first": _mean([curve[0] for curve in curves]), "last": _mean([curve[-1] for curve in curves])}
            row |= {"best": _mean(list(map(_least, curves))), "variance": _mean(known)}
            row["variance_std"] = float(np.std(known, ddof=1)) if len(known) > 1 else None
            own.append(row)
        rows += _compared(own, variances)
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None)


def steadiness(trials: pl.DataFrame, figure: Markup) -> Markup:
    """The section of a report about it; empty where no run has dev losses.

    Args:
        trials: the frame of `trials.parquet`.
        figure: `cluster.reports.run_figures.curves`, drawn.
    """
    rows = oscillation(trials)
    return Markup("") if rows.is_empty() else rendered("oscillation.html", table=_table(rows), figure=figure)


def has_dev_losses(trials: pl.DataFrame) -> bool:
    """Whether any run that is done has some; a study of an older Pyrite has no such column."""
    return not _curves(trials).is_empty()


def _curves(trials: pl.DataFrame) -> pl.DataFrame:
    """The dev losses of the runs that are done and have some, with their methods."""
    if DEV_LOSS not in trials.columns:
        return pl.DataFrame(schema={"collection": TEXT, "ranker": TEXT, "method": TEXT, "run": TEXT})
    curves = trials.filter(pl.col("status") == "done").select("run", pl.col(DEV_LOSS).cast(pl.List(NUMBER)))
    curves = curves.filter(pl.col(DEV_LOSS).list.len() > 0)
    every = with_methods(trials).join(curves, on="run").select("collection", "ranker", "method", "run", DEV_LOSS)
    return every.sort("collection", "ranker", "method", "run")


def _variance(curve: Sequence[float]) -> float:
    """Of the differences of successive values; NaN with fewer than three, or where one is not finite."""
    if len(curve) < 3 or not np.isfinite(curve).all():
        return math.nan
    return float(np.var(np.diff(curve), ddof=1))


def _least(curve: Sequence[float]) -> float:
    return min((value for value in curve if math.isfinite(value)), default=math.nan)


def _mean(values: Sequence[float]) -> float | None:
    mean = float(np.mean(values)) if len(values) else math.nan
    return mean if math.isfinite(mean) else None


def _compared(rows: list[dict[str, Any]], variances: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Hold each method of a family against that of the least mean variance; of equals, the first by name."""
    known = [row for row in rows if row["variance"] is not None]
    if not known:
        return rows
    least = min(known, key=lambda row: (row["variance"], row["method"]))["method"]
    others = [row for row in known if row["method"] != least]
    p = [t_test(variances[row["method"]], variances[least]) for row in others]
    for row, single, adjusted in zip(others, p, holm(p), strict=True):
        row |= {"against": least, "t_p": single, "t_p_holm": float(adjusted)}
    return rows


def _table(rows: pl.DataFrame) -> Markup:
    """Lay out the rows of `oscillation`, a section a ranker."""
    several = rows["collection"].n_unique() > 1
    lines: list[list[object] | Markup] = []
    for family in rows.partition_by("collection", "ranker", maintain_order=True):
        collection, ranker = family.select("collection", "ranker").row(0)
        lines.append(markup(f"{ranker} on {collection}" if several else ranker))
        for row in family.iter_rows(named=True):
            cells: list[object] = [f"{row['epochs']:.1f}"]
            cells += [_figure(row[name]) for name in ("first", "best", "last")]
            steadiest = row["variance"] is not None and row["against"] is None
            cells.append(_spread(row["variance"], row["variance_std"], steadiest))
            lines.append([row["method"], *cells, probability(row["t_p"]), probability(row["t_p_holm"]), row["runs"]])
    head = ["method", "epochs", "first dev loss", "best", "last", "variance of the differences", "p", "p (Holm)"]
    return table([*head, "runs"], lines, caption="dev loss by epoch")


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _spread(mean: float | None, std: float | None, best: bool) -> Markup:
    """A mean ± its deviation, three figures each: variances of different rankers are orders of magnitude apart."""
    if mean is None:
        return markup(None)
    shown = tag("b", f"{mean:.3g}") if best else f"{mean:.3g}"
    return Markup(f"{shown} {tag('small', '' if std is None else f'± {std:.3g}')}")
