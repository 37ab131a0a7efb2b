"""Draws how an agent learned, and what its policy does over an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cluster.output.episodes import LEARNED, RANDOM
from cluster.reports.canvas import COLOURS, grid, name_axes, png

BINS = 24
"""Parts of an episode in which actions are counted."""
WINDOW = 16
"""Episodes that a curve is averaged over."""


def smoothed(values: NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """The mean of each value and those before it, at most `window` of them."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    means: NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means


def over_time(episodes: Sequence[Sequence[int]], actions: int, bins: int = BINS) -> NDArray[np.float64]:
    """Share of each action in each part of an episode, over episodes of any length. Shape [actions, bins].

    An episode's decisions are spread evenly over the parts; one that is shorter than `bins` fills several with each.
    """
    shares = np.zeros((actions, bins))
    for taken in episodes:
        decisions = (np.arange(bins) * len(taken)) // bins if len(taken) < bins else None
        if decisions is not None:
            shares[np.asarray(taken)[decisions], np.arange(bins)] += 1
        else:
            part = np.arange(len(taken)) * bins // len(taken)
            counts = np.zeros((actions, bins))
            np.add.at(counts, (np.asarray(taken), part), 1)
            shares += counts / counts.sum(axis=0)
    return shares / max(len(episodes), 1)


def learning_curves(episodes: pl.DataFrame, measure: str, converged_at: int | None = None) -> bytes:
    """Return, validation and shares of the actions by episode, the random agent's mean beside them, as PNG.

    A grey line marks the episode after which the agent had converged, where one is given.
    """
    learned, random = (episodes.filter(pl.col("agent") == agent) for agent in (LEARNED, RANDOM))
    figure, (returns, values, shares) = grid(["", "", ""], [""], 2.2)
    for ax, column, label in ((returns, "return", "return"), (values, "validation", f"best {measure}")):
        every = learned[column].to_numpy().astype(float)
        ax.plot(np.arange(1, len(every) + 1), every, ".", color=COLOURS[0], alpha=0.35, ms=4, label="an episode")
        ax.plot(np.arange(1, len(every) + 1), smoothed(every), color=COLOURS[0], lw=2, label=f"mean of {WINDOW}")
        _random_line(ax, random[column].to_numpy().astype(float))
        name_axes(ax, "episode", label)
        ax.legend(frameon=False, fontsize=8, loc="best")
    names = [name for name in learned.columns if name.startswith("share:")]
    for index, name in enumerate(names):
        every, colour = learned[name].to_numpy(), COLOURS[index % 8]
        label = name.removeprefix("share:")
        shares.plot(np.arange(1, len(every) + 1), smoothed(every), color=colour, lw=2, label=label)
        if len(random):  # what choosing by chance gives: not the same for all where actions are documents
            shares.axhline(float(random[name].to_numpy().mean()), color=colour, lw=1, ls=":")
    shares.set_ylim(-0.02, 1.02)
    name_axes(shares, "episode", "share of decisions")
    if names:
        shares.legend(frameon=False, fontsize=8, loc="best")
    if converged_at:
        for ax in (returns, values, shares):
            ax.axvline(converged_at, color="0.6", lw=1)
    return png(figure)


def _random_line(ax: Axes, values: NDArray[np.float64]) -> None:
    if len(values):
        ax.axhline(values.mean(), color=COLOURS[1], lw=1.5, ls="--", label=f"random agent, mean of {len(values)}")


def policy_picture(episodes: pl.DataFrame, functions: Sequence[str]) -> bytes:
    """Which function, when: its share over the course of an episode, as learning began and as it ended, as PNG.

    Args:
        episodes: with `actions`, an index into the functions for each decision.
        functions: names of the actions.
    """
    learned = episodes.filter(pl.col("agent") == LEARNED)["actions"].to_list()
    part = max(1, min(32, len(learned) // 2 or 1))
    times = {f"the first {part} episodes": learned[:part], f"the last {part} episodes": learned[-part:]}
    figure, axes = grid([""], list(times), 3.0)
    x = (np.arange(BINS) + 0.5) / BINS
    for ax, taken in zip(axes, times.values(), strict=True):
        shares = over_time(taken, len(functions))
        ax.stackplot(x, shares, labels=functions, colors=[COLOURS[i % 8] for i in range(len(functions))], alpha=0.8)
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(0, 1)
        name_axes(ax, "course of an episode (0 its start, 1 its end)", "share of decisions")
    axes[-1].legend(frameon=True, fontsize=8, loc="upper right")
    return png(figure)
