"""Estimates what actions of forks are worth: differences, an oracle, tests of what matters, and regressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from pyrite.cluster.statistics.paired import mean_difference
from pyrite.rl.progress import CLOCK, STATE

BASE = "base"
PAIR = ["base", "at", "replicate"]
"""The columns that a changed and an unchanged fork share: the training, the batch and the replicate."""


def values(forks: pl.DataFrame) -> pl.DataFrame:
    """The value of each action at each batch: its forks less the unchanged ones, paired by training and replicate.

    Args:
        forks: base, at, replicate, action, soon (the measure right after the action), final (the best checkpoint's).

    Returns:
        at, action, pairs, final, low, high and p (Student's t over the pairs, which share a training's state), soon.
    """
    rows = []
    for (at, action), part in _paired(forks, "soon").group_by(["at", "action"], maintain_order=True):
        mean, low, high, p, pairs = mean_difference(part["value"].to_numpy())
        row = {"at": at, "action": action, "pairs": pairs, "final": mean, "low": low, "high": high, "p": p}
        rows.append(row | {"soon": float((part["soon"] - part["soon_0"]).to_numpy().mean())})
    return pl.DataFrame(rows).sort("at", "final", descending=[False, True])


def _paired(forks: pl.DataFrame, *of_unchanged: str) -> pl.DataFrame:
    """Return the changed forks with columns of the unchanged one of the same replicate, with the suffix `_0`, and their
    value, the gain in `final` over that one."""
    unchanged = forks.filter(pl.col("action") == BASE).select(*PAIR, pl.col("final", *of_unchanged).name.suffix("_0"))
    paired = forks.filter(pl.col("action") != BASE).join(unchanged, on=PAIR)
    return paired.with_columns(value=pl.col("final") - pl.col("final_0"))


@dataclass(frozen=True)
class Gates:
    """The most that a policy could gain by one decision, and what the best action depends on.

    Args:
        oracle: the gain over the unchanged runs from the best action of each training and batch. It is chosen
            by half of the replicates and measured on the other half, or chance would be taken for knowledge.
        schedule: the same with one action per batch for all trainings, chosen by the other trainings.
        fixed: the same with one action for all, chosen by the other trainings.
        time_p: p of the F test that actions are worth the same at every batch: the gate for schedules.
        state_p: p of the F test that at one batch they are worth the same in every training: the gate for feedback.
            nan with one training, or one replicate.
        room_high: an upper bound, with 95% confidence over trainings, of what an oracle gains over the schedule. The
            best action of each training and batch is chosen and measured on the same replicates, which overstates its
            value; so a small bound says that feedback about these actions can gain little.
    """

    oracle: float
    schedule: float
    fixed: float
    time_p: float
    state_p: float
    room_high: float


def gates(forks: pl.DataFrame) -> Gates:
    """Compute the `Gates` of forks (see `values`), at the batches that all trainings have reached."""
    cells = _cells(forks)
    trainings, times, replicates, actions = cells.shape
    if min(cells.shape) == 0 or actions < 2:
        return Gates(*[float("nan")] * 6)
    blocked = cells - cells.mean(axis=3, keepdims=True)
    means = blocked.mean(axis=2)  # [trainings, times, actions]
    within = float(np.square(blocked - means[:, :, None]).sum())
    free = trainings * times * (replicates - 1) * (actions - 1)
    of_time = means.mean(axis=0)
    by_state = replicates * float(np.square(means - of_time).sum())
    state_free = times * (trainings - 1) * (actions - 1)
    by_time = replicates * trainings * float(np.square(of_time - of_time.mean(axis=0)).sum())
    time_free = (times - 1) * (actions - 1)
    state_p = _f(by_state, state_free, within, free)
    error = (by_state, state_free) if trainings > 1 else (within, free)
    time_p = _f(by_time, time_free, *error)
    gained = cells - cells[..., :1]  # over the unchanged fork of the same replicate
    schedule, fixed = (_left_out(gained, each_time) for each_time in (True, False))
    room = gained.mean(axis=2).max(axis=2).mean(axis=1) - schedule
    high = float("nan")
    if trainings > 1:
        high = float(room.mean() + stats.t.ppf(0.95, trainings - 1) * room.std(ddof=1) / np.sqrt(trainings))
    return Gates(_oracle(gained), float(schedule.mean()), float(fixed.mean()), time_p, state_p, high)


def _f(one: float, free: int, other: float, other_free: int) -> float:
    if not free or not other_free:
        return float("nan")
    if other == 0:
        return 1.0 if one == 0 else 0.0
    return float(stats.f.sf((one / free) / (other / other_free), free, other_free))


def _cells(forks: pl.DataFrame) -> NDArray[np.float64]:
    """Return `final` as an array [trainings, batches, replicates, actions], the unchanged action first."""
    trainings, replicates, actions = (forks[name].n_unique() for name in ("base", "replicate", "action"))
    whole = forks.filter(pl.len().over("at") == trainings * replicates * actions)
    whole = whole.sort("base", "at", "replicate", pl.col("action") != BASE, "action")
    return whole["final"].to_numpy().reshape(trainings, whole["at"].n_unique(), replicates, actions)


def _oracle(gained: NDArray[np.float64]) -> float:
    replicates = gained.shape[2]
    if replicates < 2:
        return float("nan")
    halves = np.arange(replicates) % 2 == 0
    gains = []
    for half in (halves, ~halves):
        best = gained[:, :, half].mean(axis=2).argmax(axis=2)
        gains.append(np.take_along_axis(gained[:, :, ~half].mean(axis=2), best[..., None], 2).mean())
    return float(np.mean(gains))


def _left_out(gained: NDArray[np.float64], each_time: bool) -> NDArray[np.float64]:
    """Return, by training, the gain of the action that was best in the other trainings."""
    means, trainings = gained.mean(axis=2), len(gained)
    if trainings < 2:
        return np.full(trainings, np.nan)
    gains = []
    for out in range(trainings):
        others = np.delete(means, out, axis=0).mean(axis=0)
        best = others.argmax(axis=1) if each_time else np.full(means.shape[1], others.mean(axis=0).argmax())
        gains.append(means[out, np.arange(means.shape[1]), best].mean())
    return np.array(gains)


SIDES = ("below", "above")
"""The queries that an action is for, by a feature's median."""


def by_side(forks: pl.DataFrame) -> pl.DataFrame:
    """The value of each action at each batch for the queries below and above the median of a feature.

    Args:
        forks: see `values`; with side.

    Returns:
        at, action, pairs; `below` and `above` (mean differences from the unchanged forks) with `_low` and `_high`
        (95%); and `difference`, `below` less `above`, with `low`, `high` and `p`, paired by training and replicate.
    """
    rows = []
    for (at, action), part in _worth(forks).group_by(["at", "action"], maintain_order=True):
        row: dict[str, object] = {"at": at, "action": action}
        for side in SIDES:
            row[side], row[f"{side}_low"], row[f"{side}_high"], _, _ = mean_difference(part[side].to_numpy())
        mean, low, high, p, pairs = mean_difference((part["below"] - part["above"]).to_numpy())
        rows.append(row | {"pairs": pairs, "difference": mean, "low": low, "high": high, "p": p})
    return pl.DataFrame(rows).sort("at", "difference", descending=[False, True])


def _worth(forks: pl.DataFrame) -> pl.DataFrame:
    """Return a row per training, batch, replicate and action: what it is worth `below` and `above`."""
    wide = _paired(forks).pivot("side", index=[*PAIR, "action"], values="value", maintain_order=True)
    return wide.drop_nulls().sort("at", "action", "base", "replicate")


@dataclass(frozen=True)
class RoomByQuery:
    """The most that one action per half of the queries could gain over one action for all.

    What an action is worth in both halves is taken to be the sum of what it is worth in each.

    Args:
        by_query: the gain over the unchanged runs from one action per half, chosen by the other trainings; nan with one
            training.
        fixed: the same from one action for all.
        p: p of the F test that actions are worth the same in both halves.
        high: an upper bound, with 95% confidence, of what any pair of actions gains over the best action for all. If a
            is best below and b above, taking one of them for all loses at most what the other is ahead in its half. The
            smaller of the two losses is at most their mean, which is half of the difference between a's and b's
            `difference` (`by_side`). The bound is the largest over all pairs, by Student's t over trainings and
            replicates, after Bonferroni.
    """

    by_query: float
    fixed: float
    p: float
    high: float


def room_by_query(forks: pl.DataFrame) -> RoomByQuery:
    """Compute the `RoomByQuery` of forks (see `by_side`), averaged over batches."""
    keys = ["base", "replicate", "action"]
    worth = _worth(forks).group_by(*keys, maintain_order=True).agg(pl.col(SIDES).mean())
    # Halves in the part of batches: then schedules are decisions per query.
    halves = worth.unpivot(SIDES, index=keys, variable_name="at", value_name="final")
    unchanged = halves.select("base", "replicate", "at").unique(maintain_order=True)
    unchanged = unchanged.with_columns(action=pl.lit(BASE), final=pl.lit(0.0)).select(halves.columns)
    found = gates(pl.concat([halves, unchanged]))
    contrast = worth.with_columns(value=pl.col("below") - pl.col("above"))
    wide = contrast.pivot("action", index=["base", "replicate"], values="value")
    contrasts = np.pad(wide.drop("base", "replicate").drop_nulls().to_numpy(), ((0, 0), (1, 0)))  # the unchanged run: 0
    pairs, actions = contrasts.shape
    high = float("nan")
    if pairs > 1:
        leads = (contrasts[:, :, None] - contrasts[:, None, :]) / 2
        reach = stats.t.isf(0.05 / (actions * (actions - 1)), pairs - 1) * leads.std(axis=0, ddof=1) / np.sqrt(pairs)
        high = float((leads.mean(axis=0) + reach).max())
    return RoomByQuery(2 * found.schedule, 2 * found.fixed, found.time_p, high)


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
    """Fit the value of each action, averaged over replicates; forks are those of `values` with the features `STATE`."""
    worth = (
        _paired(forks, *STATE)
        .group_by("base", "at", "action")
        .agg(pl.col("value").mean(), *(pl.col(f"{name}_0").first().alias(name) for name in STATE))
        .sort("base", "at", "action")
    )
    models = [_errors(worth, features) for features in ((), ("one",), CLOCK, STATE)]
    total = sum(models[0])
    action_r2, clock_r2, state_r2 = (1 - sum(errors) / total if total else float("nan") for errors in models[1:])
    shares = (np.array(models[2]) - np.array(models[3])) * len(models[0]) / (total or float("nan"))
    gain, low, high, _, _ = mean_difference(shares)
    actions = sorted(set(worth["action"]))
    parts = [worth.filter(action=action) for action in actions]
    clock, state = (np.stack([_fit(part, names) for part in parts]) for names in (CLOCK, STATE))
    return ForkRegression(actions, clock, state, action_r2, clock_r2, state_r2, gain, low, high)


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
        others, error = worth.filter(pl.col("base") != base), 0.0
        for part in worth.filter(base=base).partition_by("action", maintain_order=True):  # which are sorted
            predicted = others["value"].mean()
            if names:
                predicted = part.select(names).to_numpy() @ _fit(others.filter(action=part[0, "action"]), names)
            error += float(np.square(part["value"].to_numpy() - predicted).sum())
        errors.append(error)
    return errors
