"""Measures how far dev losses go up and down from epoch to epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import with_methods
from pyrite.analysis.statistics.comparison import adjust
from pyrite.analysis.statistics.crossed import deviation
from pyrite.ranking.evaluation.significance import t_test

DEV_LOSS = "curve_dev_loss"
TEXT, NUMBER, WHOLE = pl.String(), pl.Float64(), pl.Int64()
SCHEMA = {
    **dict.fromkeys(("collection", "ranker", "method"), TEXT), "runs": WHOLE,
    **dict.fromkeys(("epochs", "first", "best", "last", "variance", "variance_std"), NUMBER),
    "against": TEXT, "t_p": NUMBER, "t_p_holm": NUMBER,
}  # fmt: skip


def oscillation(trials: pl.DataFrame) -> pl.DataFrame:
    """How much dev losses oscillate, by method (Saeidi et al. 2017, figure 5, shows it and does not measure it).

    A run's figure is the variance of the differences of successive dev losses, estimated from how these change (half
    the mean squared second difference; von Neumann et al. 1941, "The mean square successive difference"): 0 if the loss
    changes by the same amount each epoch, and hardly raised by a fall that slows down, as that of the first epochs.
    Within a ranker each method is compared with the steadiest.

    Returns:
        One row per collection, ranker and method with dev losses: runs that have some, their mean number of epochs,
        mean first, best and last dev loss, variance (the mean over runs of at least three epochs) and its standard
        deviation, the steadiest method (null in its row), and p of Student's test. What is not finite, or cannot be
        computed, is null.
    """
    families = dev_losses(trials).partition_by("collection", "ranker", maintain_order=True)
    return pl.DataFrame([*chain(*map(_of_family, families))], schema=SCHEMA).fill_nan(None)


def _of_family(family: pl.DataFrame) -> list[dict[str, Any]]:
    rows, variances = [], {}
    for part in family.partition_by("method", maintain_order=True):
        curves = part[DEV_LOSS].to_list()
        known = np.array([*filter(math.isfinite, map(dev_loss_variance, curves))])
        least = [min(filter(math.isfinite, curve), default=math.nan) for curve in curves]
        first, last = zip(*((curve[0], curve[-1]) for curve in curves), strict=True)
        figures: dict[str, Any] = {"epochs": [*map(len, curves)], "first": first, "last": last, "best": least}
        figures["variance"] = known
        row = part.select("collection", "ranker", "method").row(0, named=True) | {"runs": len(curves)}
        rows.append(
            row | {name: _mean(values) for name, values in figures.items()} | {"variance_std": deviation(known)}
        )
        variances[row["method"]] = known
    # With the steadiest, of equals the first by name.
    steady = sorted((row["variance"], row["method"]) for row in rows if row["variance"] is not None)
    for _, steadiest in steady[:1]:
        others = [row for row in rows if row["variance"] is not None and row["method"] != steadiest]
        for row in others:
            row |= {"against": steadiest, "t_p": t_test(variances[row["method"]], variances[steadiest])}
        adjust(others, ["t_p"])
    return rows


def dev_losses(trials: pl.DataFrame) -> pl.DataFrame:
    """The dev losses of the finished runs that have some, with their methods."""
    curves = trials.filter(pl.col(DEV_LOSS).list.len() > 0, status="done").select("run", DEV_LOSS)
    every = with_methods(trials).join(curves, on="run").select("collection", "ranker", "method", "run", DEV_LOSS)
    return every.sort("collection", "ranker", "method", "run")


def dev_loss_variance(curve: Sequence[float]) -> float:
    """Return half the mean squared second difference; NaN with fewer than three epochs, or if a value is not finite."""
    if len(curve) < 3 or not np.isfinite(curve).all():
        return math.nan
    return float(np.mean(np.diff(curve, 2) ** 2) / 2)


def _mean(values: Sequence[float]) -> float | None:
    mean = float(np.mean(values)) if len(values) else math.nan
    return mean if math.isfinite(mean) else None
