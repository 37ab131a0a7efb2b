"""Draws what a mixture policy decides while a ranker learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from cluster.reports.canvas import COLOURS, grid, name_axes, png
from rl.mixture import MixtureAgent


def mixture_picture(agent: MixtureAgent, trainings: Sequence[Sequence[Sequence[float]]]) -> bytes:
    """`mixture_figure` as PNG."""
    return png(mixture_figure(agent, trainings))


def mixture_figure(agent: MixtureAgent, trainings: Sequence[Sequence[Sequence[float]]]) -> Figure:
    """Shares and window by batch, a thin line a training of the last generation and their mean.

    Args:
        agent: whose functions are named.
        trainings: by training and decision: step, the share of each function, first and last rank of the window.
    """
    functions = agent.functions
    figure, (shares, ranks) = grid(["", ""], [""], 2.4)
    for index, name in enumerate(functions[1:], 1):
        colour = COLOURS[(index - 1) % len(COLOURS)]
        _lines(shares, trainings, 1 + index, colour, name)
    shares.set_ylim(-0.03, 1.03)
    name_axes(shares, "batch", "share")
    shares.legend(frameon=False, fontsize=8, loc="best")
    first = 1 + len(functions)
    if any(len(each) > first for decisions in trainings for each in decisions):
        _lines(ranks, trainings, first + 1, COLOURS[0], "last rank that is seen")
        if agent.actions.window == "from_to":
            _lines(ranks, trainings, first, COLOURS[1], "first rank")
        ranks.set_yscale("log")
        ranks.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ranks.yaxis.set_major_formatter(ScalarFormatter())
        ranks.yaxis.set_minor_formatter(NullFormatter())
        ranks.legend(frameon=False, fontsize=8, loc="best")
    name_axes(ranks, "batch", "rank in the list")
    return figure


def _lines(ax, trainings, column, colour, name) -> None:  # type: ignore[no-untyped-def]
    for decisions in trainings:
        ax.plot([each[0] for each in decisions], [each[column] for each in decisions], color=colour, lw=0.6, alpha=0.4)
    shortest = min((len(decisions) for decisions in trainings), default=0)
    if shortest:
        values = np.array([[each[column] for each in decisions[:shortest]] for decisions in trainings])
        ax.plot([each[0] for each in trainings[0][:shortest]], values.mean(0), color=colour, lw=2, label=name)
