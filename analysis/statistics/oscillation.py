"""Measures how far dev losses go up and down from epoch to epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import with_methods
from pyrite.ranking.evaluation.significance import holm, t_test

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
    rows: list[dict[str, Any]] = []
    for family in dev_losses(trials).partition_by("collection", "ranker", maintain_order=True):
        variances, of_family = {}, []
        for part in family.partition_by("method", maintain_order=True):
            curves = part[DEV_LOSS].to_list()
            row = part.select("collection", "ranker", "method").row(0, named=True)
            variances[row["method"]] = known = [*filter(math.isfinite, map(dev_loss_variance, curves))]
            row |= {"runs": len(curves), "epochs": _mean(list(map(len, curves)))}
            row |= {"first": _mean([curve[0] for curve in curves]), "last": _mean([curve[-1] for curve in curves])}
            least = [min(filter(math.isfinite, curve), default=math.nan) for curve in curves]
            row |= {"best": _mean(least), "variance": _mean(known)}
            row["variance_std"] = float(np.std(known, ddof=1)) if len(known) > 1 else None
            of_family.append(row)
        # With the steadiest, of equals the first by name.
        measured = [row for row in of_family if row["variance"] is not None]
        steadiest = min(measured, key=lambda row: (row["variance"], row["method"]), default={"method": None})["method"]
        others = [row for row in measured if row["method"] != steadiest]
        p = [t_test(variances[row["method"]], variances[steadiest]) for row in others]
        for row, single, adjusted in zip(others, p, holm(p), strict=True):
            row |= {"against": steadiest, "t_p": single, "t_p_holm": float(adjusted)}
        rows += of_family
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None)


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
