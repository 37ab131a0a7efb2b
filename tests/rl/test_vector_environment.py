from typing import Any

import gymnasium
import numpy as np
import pytest

from benchmarks.toys import STEPS, EarlyLate
from ranking.checkpoint import from_bytes, to_bytes
from rl.vector_environment import IDLE, VectorEnvironment
from tests.rl.trainings import environment_of


def copies_of(count: int = 3) -> VectorEnvironment:
    return VectorEnvironment([EarlyLate(copy, seed=4) for copy in range(count)])


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", ["toy", "training"])
def test_copies_are_each_as_one_alone(kind, tiny_sources):
    def of(copy: int) -> gymnasium.Env:
        return EarlyLate(copy, seed=4) if kind == "toy" else environment_of(tiny_sources, copy=copy)

    together, alone = VectorEnvironment([of(copy) for copy in range(3)]), [of(copy) for copy in range(3)]
    observed, infos = together.reset()
    for copy, environment in enumerate(alone):
        observation, info = environment.reset()
        assert same({name: part[copy] for name, part in observed.items()}, observation)
        assert infos[copy] == info
    for number in range(14):  # beyond the end of a training's episodes, at nine
        actions = np.array([number % 2, 1, 0])
        observed, rewards, ended, cut, infos = together.step(actions)
        assert together.observation_space.contains(observed)
        assert not cut.any()
        for copy, environment in enumerate(alone):
            observation, reward, done, _, info = environment.step(int(actions[copy]))
            assert (np.float32(reward), done) == (rewards[copy], ended[copy])
            if done:
                assert infos[copy]["final_info"]["summary"] == info["summary"]
                observation, info = environment.reset()
            assert same({name: part[copy] for name, part in observed.items()}, observation)
            assert info.items() <= infos[copy].items()


def test_an_ended_episode_is_followed_by_the_next_in_the_same_step():
    copies = copies_of(2)
    copies.reset()
    for _ in range(STEPS - 1):
        copies.step(np.array([0, IDLE]))
    seen, _, terminated, _, infos = copies.step(np.array([1, 1]))
    assert terminated.tolist() == [True, False]
    assert infos[0]["final_observation"]["model"][0] == 1
    assert infos[0]["final_info"]["summary"] == {"right": 11 / STEPS}
    assert infos[0]["decision"] == STEPS
    assert seen["model"][:, 0].tolist() == [0, np.float32(1 / STEPS)]
    assert not {"final_observation", "final_info"} & infos[1].keys()
    *_, infos = copies.step(np.array([IDLE, IDLE]))
    assert "final_observation" not in infos[0]


def test_an_idle_copy_is_left_alone():
    copies = copies_of()
    before, _ = copies.reset()
    after, rewards, *_, infos = copies.step(np.array([IDLE, 1, IDLE]))
    assert np.array_equal(after["model"][[0, 2]], before["model"][[0, 2]])
    assert not np.array_equal(after["model"][1], before["model"][1])
    assert rewards[[0, 2]].tolist() == [0, 0]
    assert [info["decision"] for info in infos] == [0, 1, 0]


def test_copies_go_on_in_mid_episode():
    copies, fresh = copies_of(), copies_of()
    copies.reset()
    for _ in range(STEPS + 3):
        before, *_ = copies.step(np.array([0, 1, 0]))
    fresh.load_state_dict(from_bytes(to_bytes(copies.state_dict())))
    again, infos = fresh.reset()
    assert same(before, again)
    assert [info["decision"] for info in infos] == [STEPS + 3] * 3
    for _ in range(STEPS):
        one, other = copies.step(np.array([1, 1, 0])), fresh.step(np.array([1, 1, 0]))
        assert same(one[0], other[0])
        assert np.array_equal(one[1], other[1])
    assert len(copies.state_dict()["copies"]) == 3
