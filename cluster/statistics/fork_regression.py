"""Fits the value of actions in forks to the action, the clock and the state of the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cluster.statistics.paired import mean_difference
from rl.progress import CLOCK, STATE

RIDGE = 0.1
"""Penalty of each standardized weight but the intercept, in observations."""


@dataclass(frozen=True)
class ForkRegression:
    """Linear models of an action's value, one per action, and how well they predict trainings that they have not seen.

    Args:
        actions: names of the actions.
        clock: float64 [actions, 2], the weights of `CLOCK`.
        state: float64 [actions, 5], the weights of `STATE`.
        action_r2, clock_r2, state_r2: leave-one-training-out R² of the action alone, with the clock, with the state.
        gain: R² with the state minus R² with the clock, with `low` and `high`, its 95% interval over trainings.
    """

    actions: list[str]
    clock: NDArray[np.float64]
    state: NDArray[np.float64]
    action_r2: float
    clock_r2: float
    state_r2: float
    gain: float
    low: float
    high: float


def regress(forks: pl.DataFrame) -> ForkRegression:
    """Fit the value of each action: its forks less the unchanged ones, averaged over replicates.

    Args:
        forks: columns base, at, replicate, action, final, and the features of `STATE`.
    """
    keys = ["base", "at", "replicate"]
    unchanged = forks.filter(pl.col("action") == "base").select(*keys, *STATE, final_0="final")
    paired = forks.filter(pl.col("action") != "base").select(*keys, "action", "final").join(unchanged, on=keys)
    worth = (
        paired.group_by("base", "at", "action")
        .agg((pl.col("final") - pl.col("final_0")).mean().alias("value"), *(pl.col(name).first() for name in STATE))
        .sort("base", "at", "action")
    )
    models = [_errors(worth, features) for features in ((), ("one",), CLOCK, STATE)]
    total = sum(models[0])
    r2 = [1 - sum(errors) / total if total else float("nan") for errors in models[1:]]
    shares = (np.array(models[2]) - np.array(models[3])) * len(models[0]) / (total or float("nan"))
    gain, low, high, _, _ = mean_difference(shares)
    actions = sorted(set(worth["action"]))
    clock, state = (np.stack([_fit(_of(worth, action), names) for action in actions]) for names in (CLOCK, STATE))
    return ForkRegression(actions, clock, state, r2[0], r2[1], r2[2], gain, low, high)


def _of(worth: pl.DataFrame, action: str) -> pl.DataFrame:
    return worth.filter(pl.col("action") == action)


def _fit(worth: pl.DataFrame, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights of a ridge regression; the first feature is the constant."""
    x, y = worth.select(names).to_numpy(), worth["value"].to_numpy()
    mean, scale = x[:, 1:].mean(0), np.maximum(x[:, 1:].std(0), 1e-9)
    moved = (x[:, 1:] - mean) / scale
    slopes = np.linalg.solve(moved.T @ moved + RIDGE * np.eye(len(mean)), moved.T @ (y - y.mean())) / scale
    return np.concatenate([[y.mean() - slopes @ mean], slopes])


def _errors(worth: pl.DataFrame, names: Sequence[str]) -> list[float]:
    """Return, by training, the squared error of models that were fitted to the others; without names, of their mean."""
    errors = []
    for base in sorted(set(worth["base"])):
        out, others = worth.filter(pl.col("base") == base), worth.filter(pl.col("base") != base)
        error = 0.0
        for action in sorted(set(out["action"])):
            part = _of(out, action)
            predicted = (
                part.select(names).to_numpy() @ _fit(_of(others, action), names) if names else others["value"].mean()
            )
            error += float(np.square(part["value"].to_numpy() - predicted).sum())
        errors.append(error)
    return errors
