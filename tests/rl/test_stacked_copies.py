"""Tests of `rl.stacked_copies`: copies that are updated together."""

from __future__ import annotations

import numpy as np
import pytest

from ranking.sources import Sources
from rl.copies import Copies
from rl.stacked_copies import StackedCopies
from tests.rl.trainings import environment_of


@pytest.mark.parametrize("kind", [Copies, StackedCopies])
def test_many_copies_are_each_as_one_alone(tiny_sources: Sources, kind: type[Copies]) -> None:
    """The vectorised form and the single one go the same way."""
    together = kind([environment_of(tiny_sources, copy=copy) for copy in range(3)])
    observed, _ = together.reset()
    alone = [environment_of(tiny_sources, copy=copy) for copy in range(3)]
    for copy, environment in enumerate(alone):
        observation, _ = environment.reset()
        assert all(np.array_equal(observed[name][copy], observation[name]) for name in observation)
    for number in range(14):  # beyond the end of the episodes, at nine
        actions = np.array([number % 2, 1, 0])
        observed, rewards, ended, _, infos = together.step(actions)
        for copy, environment in enumerate(alone):
            observation, reward, done, _, info = environment.step(int(actions[copy]))
            assert (reward, done) == (rewards[copy], ended[copy])
            if done:
                assert infos[copy]["final_info"]["summary"] == info["summary"]
                observation, info = environment.reset()
            assert all(np.array_equal(observed[name][copy], observation[name]) for name in observation)


def test_copies_on_a_gpu_share_each_update(tiny_sources: Sources) -> None:
    """Stacked weights, forced onto the CPU here: the same steps, up to rounding (which Adam's first steps enlarge)."""
    each = [StackedCopies([environment_of(tiny_sources, copy=copy, decision_every=2) for copy in range(3)], forced=f)
            for f in (False, True)]  # fmt: skip
    for copies in each:
        copies.reset()
        for environment in copies.environments:
            environment.training.ranker.double()
    for number in range(4):  # the last decision is of one batch
        actions = np.array([number % 2, 1, 0])
        # Not the rewards: two documents of the collection are alike, and rounding decides which comes first.
        (alone, _, ended, _, _), (stacked, _, ended_together, _, _) = (copies.step(actions) for copies in each)
        assert (ended == ended_together).all()
        np.testing.assert_allclose(alone["model"], stacked["model"], atol=1e-6)
