"""Judges from the validation of its runs whether a ranker was trained long enough."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class TrainingLength:
    """How long the runs of a ranker trained.

    Args:
        best: the epoch after which the middle run validated best.
        epochs: the epochs of that run.
        is_enough: whether at most a fourth of the runs were best after their last epoch, and so may still get better.
    """

    best: int
    epochs: int
    is_enough: bool


def training_length(trials: pl.DataFrame) -> TrainingLength | None:
    """Return how long the finished runs trained; None if none of them was validated after more than one epoch.

    The middle run is that with the median share of its epochs before the best.
    """
    runs = trials.filter(pl.col("curve_validation").list.len() > 1, status="done")
    runs = runs.select("run", "best_epoch", "epochs", share=pl.col("best_epoch") / pl.col("epochs"))
    if runs.is_empty():
        return None
    middle = runs.sort("share", "epochs", "run").row(len(runs) // 2, named=True)
    last = float((runs["best_epoch"] >= runs["epochs"]).to_numpy().mean())
    return TrainingLength(middle["best_epoch"], middle["epochs"], last <= 0.25)
