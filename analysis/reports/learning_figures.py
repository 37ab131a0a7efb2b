"""Draws how an agent learned, and its decisions over a training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.reports.canvas import COLOURS, grid, name_axes, png

BINS = 24
"""The number of parts of an episode in which actions are counted."""
WINDOW = 16
"""The number of episodes that a curve is averaged over."""


def over_time(episodes: Sequence[Sequence[int]], actions: int) -> NDArray[np.float64]:
    """The share of each action in each part of an episode, over episodes of any length. Shape [actions, BINS].

    An episode's decisions are spread evenly over the parts; if it is shorter than `BINS`, each fills several.
    """
    shares = np.zeros((actions, BINS))
    for taken in episodes:
        if len(taken) < BINS:
            decisions = (np.arange(BINS) * len(taken)) // BINS
            shares[np.asarray(taken)[decisions], np.arange(BINS)] += 1
        else:
            part = np.arange(len(taken)) * BINS // len(taken)
            counts = np.zeros((actions, BINS))
            np.add.at(counts, (np.asarray(taken), part), 1)
            shares += counts / counts.sum(axis=0)
    return shares / max(len(episodes), 1)


def learning_curves(
    learned: pl.DataFrame, random: pl.DataFrame, measure: str, converged_at: int | None = None
) -> bytes:
    """Draw return, validation and shares of the actions by episode, with the random agent's mean, as PNG.

    A grey line marks the episode after which the agent had converged, if it is given.

    Args:
        learned, random: the episodes of the agent and of the random agent.
    """
    figure, (returns, values, shares) = grid(["", "", ""], [""], 2.2)
    for ax, column, label in ((returns, "return", "return"), (values, "validation", f"best {measure}")):
        every = learned[column]
        ax.plot(np.arange(1, len(every) + 1), every, ".", color=COLOURS[0], alpha=0.35, ms=4, label="an episode")
        ax.plot(np.arange(1, len(every) + 1), _smoothed(every), color=COLOURS[0], lw=2, label=f"mean of {WINDOW}")
        if len(random):
            chance = f"random agent, mean of {len(random)}"
            ax.axhline(random[column].to_numpy().mean(), color=COLOURS[1], lw=1.5, ls="--", label=chance)
        name_axes(ax, "episode", label)
        ax.legend(frameon=False, fontsize=8, loc="best")
    names = [name for name in learned.columns if name.startswith("share:")]
    for index, name in enumerate(names):
        every, colour = _smoothed(learned[name]), COLOURS[index % 8]
        shares.plot(np.arange(1, len(every) + 1), every, color=colour, lw=2, label=name.removeprefix("share:"))
        if len(random):  # the share by chance: it varies by action if actions are documents
            shares.axhline(float(random[name].to_numpy().mean()), color=colour, lw=1, ls=":")
    shares.set_ylim(-0.02, 1.02)
    name_axes(shares, "episode", "share of decisions")
    if names:
        shares.legend(frameon=False, fontsize=8, loc="best")
    if converged_at:
        for ax in (returns, values, shares):
            ax.axvline(converged_at, color="0.6", lw=1)
    return png(figure)


def _smoothed(values: pl.Series) -> pl.Series:
    """Return the mean of each value and those before it, at most `WINDOW` of them."""
    return values.cast(pl.Float64).rolling_mean(WINDOW, min_samples=1)


def policy_picture(learned: pl.DataFrame, functions: Sequence[str]) -> bytes:
    """Draw the share of each function over the course of an episode, as learning began and as it ended, as PNG."""
    taken = learned["actions"].to_list()
    part = max(1, min(32, len(taken) // 2 or 1))
    times = {f"the first {part} episodes": taken[:part], f"the last {part} episodes": taken[-part:]}
    figure, axes = grid([""], list(times), 3.0)
    x = (np.arange(BINS) + 0.5) / BINS
    for ax, of_time in zip(axes, times.values(), strict=True):
        shares = over_time(of_time, len(functions))
        ax.stackplot(x, shares, labels=functions, colors=[COLOURS[i % 8] for i in range(len(functions))], alpha=0.8)
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(0, 1)
        name_axes(ax, "course of an episode (0 its start, 1 its end)", "share of decisions")
    axes[-1].legend(frameon=True, fontsize=8, loc="upper right")
    return png(figure)
