"""Tests of `pyrite.rl.agents.ppo`."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from benchmarks.toys import EarlyLate
from pyrite.rl.agents.ppo import PPO, minibatch_rows
from tests.ranking.trained import equal
from tests.rl.agents.conftest import play


class Hundreds(EarlyLate):
    """Every return is far above √10, as gains in hundredths of average precision are."""

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, 100 * reward + 50, *rest


def test_the_critic_of_ppo_learns_however_large_returns_are(start):
    toy, make = Hundreds(), lambda numbers: [Hundreds(copy) for copy in numbers]
    trainer = PPO(hidden=20, episodes=1, epochs=2).build(make, toy.observation_space, toy.action_space, copies=4)
    try:
        before = trainer.learner_group.get_weights()[DEFAULT_MODULE_ID]["critic.output.bias"].copy()
        play(trainer, 2)
        assert not np.array_equal(trainer.learner_group.get_weights()[DEFAULT_MODULE_ID]["critic.output.bias"], before)
    finally:
        trainer.stop()


@pytest.mark.nightly
def test_ppo_learns_from_whole_episodes(start):
    trainer = start(PPO(hidden=20, episodes=2, minibatch=1000, epochs=1))
    rows = play(trainer, 2)
    assert trainer.counters == {"updates": 2, "decisions": 2 * 2 * 4 * 20, "episodes": 16}
    assert {row["decisions"] for row in rows} == {20}


@pytest.mark.nightly
def test_ppo_leaves_the_global_generators_alone(start):
    weights: list[dict[str, torch.Tensor]] = []
    for drawn in (0, 5):  # whatever state they are in, what is learned is the same
        trainer, states = start(PPO(hidden=20, fragment=9, minibatch=16, epochs=2)), []
        np.random.random(drawn)  # noqa: NPY002
        for updates in (0, 2):
            play(trainer, updates)
            states.append((random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()))  # noqa: NPY002
        assert equal(*states)
        weights.append(trainer.policy_weights())
    assert equal(*weights)


def test_minibatches_cover_every_pass_and_are_filled_up():
    rows = list(minibatch_rows(10, 2, 4, np.random.default_rng(0)))
    assert [len(part) for part in rows] == [4] * 5
    assert np.concatenate(rows)[:10].tolist() == list(range(10))  # the first pass in order
    assert sorted(np.concatenate(rows)[10:].tolist()) == list(range(10))
    assert np.concatenate(rows)[10:].tolist() != list(range(10))
    odd = list(minibatch_rows(10, 1, 4, np.random.default_rng(0)))
    assert [len(part) for part in odd] == [4, 4, 4]
    again = list(minibatch_rows(10, 2, 4, np.random.default_rng(0)))
    assert equal(rows, again)
