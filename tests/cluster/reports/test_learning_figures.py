"""Tests of the picture of a mixture policy: each line is of the function that it is named by."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.reports.learning_figures import mixture_figure
from rl.mixture import MixtureActions, MixtureAgent
from rl.progress import ProgressOptions


def test_lines_are_of_the_functions_and_ranks_that_they_are_named_by() -> None:
    actions, names = MixtureActions(window="from_to"), ["random", "bm25", "dense"]
    agent = MixtureAgent(names, actions, ProgressOptions(), 8, "linear", np.zeros(32), {})
    # By training and decision: step, a share of each function, first and last rank.
    one = [[0.0, 0.7, 0.2, 0.1, 1.0, 100.0], [8.0, 0.2, 0.3, 0.5, 2.0, 10.0]]
    other = [[0.0, 0.9, 0.0, 0.1, 1.0, 50.0], [8.0, 0.0, 0.5, 0.5, 4.0, 20.0]]
    shares, ranks = mixture_figure(agent, [one, other]).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in (*shares.lines, *ranks.lines)}  # type: ignore[call-overload]
    assert drawn["bm25"] == pytest.approx([0.1, 0.4])
    assert drawn["dense"] == pytest.approx([0.1, 0.5])
    assert drawn["last rank that is seen"] == pytest.approx([75, 15])
    assert drawn["first rank"] == pytest.approx([1, 3])
    assert "random" not in drawn
