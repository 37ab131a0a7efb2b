"""What a runner samples from its copies."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiDiscrete
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from benchmarks.toys import EarlyLate
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.rl.rllib.algorithm import LockstepConfig
from pyrite.rl.rllib.module import PolicyModule
from pyrite.rl.rllib.runner import LockstepRunner
from tests.ranking.trained import equal

PARTS = {"batch": (12, 5), "present": (6,), "similarity": (6, 2, 4), "candidates": (6, 4, 5)}


class Uneven(EarlyLate):
    """Copy i has episodes of 3 + i decisions; every third of copy 0 is cut off. Its batches are often short."""

    parts = ("batch", "present", "similarity")

    def __init__(self, copy: int = 0, seed: int = 0) -> None:
        super().__init__(copy, seed)
        shown = {name: Box(-1.0, 1.0, PARTS[name], np.float32) for name in self.parts}
        self.observation_space = Dict({**self.observation_space.spaces, **shown})

    def _observation(self) -> dict[str, Any]:
        rng = np.random.default_rng([self.seed, self.copy, self.decision, 3])
        shown = {name: rng.uniform(-1, 1, PARTS[name]).astype(np.float32) for name in self.parts}
        shown["present"] = (np.arange(6) < rng.integers(1, 7)).astype(np.float32)
        return super()._observation() | shown

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, _, info = super().step(action)
        over = self.time == 3 + self.copy
        cut = over and self.copy == 0 and self.decision % 9 == 0
        return observation, reward, over and not cut, cut, info

    def _reward(self, good: bool) -> float:
        return self.decision + 1.0


class Picking(Uneven):
    """An action is one of four documents for each of six queries."""

    parts = ("batch", "present", "similarity", "candidates")

    def __init__(self, copy: int = 0, seed: int = 0) -> None:
        super().__init__(copy, seed)
        self.action_space = MultiDiscrete([4] * 6)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return super().step(int(action[0]))


def runner_of(
    quota: Mapping[str, int], copies: int = 3, seed: int = 5, environment: type[Uneven] = Uneven
) -> LockstepRunner:
    def make(numbers: Sequence[int]) -> list[Uneven]:
        return [environment(number, seed) for number in numbers]

    spaces = environment().observation_space, environment().action_space
    spec = RLModuleSpec(PolicyModule, *spaces, model_config={"seed": 1})
    options = {"make": make, "quota": quota, "seed": seed, "cpus": 1}
    config = LockstepConfig().environment(env_config=options, observation_space=spaces[0], action_space=spaces[1])
    config = config.env_runners(num_envs_per_env_runner=copies).rl_module(rl_module_spec=spec)
    return LockstepRunner(config=config, worker_index=0, num_workers=0)


def sampled_by(runner: LockstepRunner, steps: int | None = None) -> list[SingleAgentEpisode]:
    """What a runner samples, of another number of steps if one is given, by copy and time."""
    runner.options["quota"] = {"steps": steps} if steps else runner.options["quota"]
    number, sample = runner.answer(runner.updates, "sample", weights=runner.module.get_state())
    assert number == 0
    return list(chain.from_iterable(sample))


def ended(episodes: list[SingleAgentEpisode]) -> list[dict[str, Any]]:
    """The records of the episodes that ended."""
    return [episode.get_infos(-1)["summary"] for episode in episodes if episode.is_done]


def where(episodes: list[Any]) -> list[tuple[int, list[int]]]:
    """Copy and decisions after each step, of each chunk."""
    infos = [episode.get_infos() for episode in episodes]
    return [(rows[0]["copy"], [info["decision"] for info in rows[1:]]) for rows in infos]


def test_each_copy_gives_the_same_number_of_steps_in_order():
    runner = runner_of({"steps": 4})
    sampled = sampled_by(runner)
    assert sum(map(len, sampled)) == 12
    assert where(sampled) == [(0, [1, 2, 3]), (0, [4]), (1, [1, 2, 3, 4]), (2, [1, 2, 3, 4])]
    assert [episode.is_terminated for episode in sampled] == [True, False, True, False]
    assert where(sampled_by(runner, 2)) == [(0, [5, 6]), (1, [5, 6]), (2, [5]), (2, [6])]
    first, second, following = sampled_by(runner, 1)[0], *sampled_by(runner, 5)[:2]
    assert np.array_equal(first.get_observations(-1)["model"], second.get_observations(0)["model"])  # without a gap
    # The end of an episode is its own, and not the start of the next.
    assert second.is_done
    assert second.get_observations(-1)["model"][0] == np.float32(3 / 20)
    assert following.get_observations(0)["model"][0] == 0


@pytest.mark.nightly
def test_a_quota_of_episodes_leaves_copies_that_are_done_alone():
    runner = runner_of({"episodes": 2})
    sampled = sampled_by(runner)
    assert where(sampled) == [
        (0, [1, 2, 3]),
        (0, [4, 5, 6]),
        (1, [1, 2, 3, 4]),
        (1, [5, 6, 7, 8]),
        (2, [1, 2, 3, 4, 5]),
        (2, [6, 7, 8, 9, 10]),
    ]
    assert all(episode.is_done for episode in sampled)
    assert where(sampled_by(runner))[0] == (0, [7, 8, 9])


def test_finished_episodes_are_summed_up():
    runner = runner_of({"steps": 9})
    sampled = sampled_by(runner)
    rows = ended(sampled)
    assert sum(map(len, sampled)) == 27
    assert [(row["copy"], row["episode"], row["decisions"]) for row in rows] == [
        (0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 4), (1, 1, 4), (2, 0, 5),
    ]  # fmt: skip
    assert [row["return"] for row in rows] == [6.0, 15.0, 24.0, 10.0, 26.0, 15.0]
    assert rows[1]["actions"] == sampled[1].get_actions().tolist()
    assert sampled[2].is_truncated
    assert not sampled[2].is_terminated


@pytest.mark.by_day(1)
@pytest.mark.parametrize("environment", [Uneven, Picking])
def test_actions_do_not_depend_on_who_shares_the_runner(environment):
    runners = [runner_of({"steps": 10}, copies, environment=environment) for copies in (3, 1)]
    together, alone = (sampled_by(runner) for runner in runners)
    for one, other in zip([chunk for chunk in together if chunk.get_infos(0)["copy"] == 0], alone, strict=True):
        assert one.get_actions().tolist() == other.get_actions().tolist()
        for column in (Columns.ACTION_DIST_INPUTS, Columns.ACTION_LOGP):
            mine, theirs = one.get_extra_model_outputs(column), other.get_extra_model_outputs(column)
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("quota", [{"steps": 4}, {"episodes": 1}])
@pytest.mark.parametrize("saved", [0, 1])
def test_a_runner_repeats_decisions_from_a_state_or_from_the_beginning(quota, saved):
    runner, fresh = runner_of(quota), runner_of(quota)
    state, taken = {"copies": None}, [[] for _ in range(3)]
    for update in range(3):
        if saved and update == saved:
            state, taken = from_bytes(to_bytes(runner.get_state())), [[] for _ in range(3)]
        _, sample = runner.answer(update, "sample", weights=runner.module.get_state())
        for actions, chunks in zip(taken, sample, strict=True):
            actions += chain.from_iterable(chunk.get_actions() for chunk in chunks)
    assert fresh.answer(3, "sample", weights={}) == (0, None)  # it has lost what the update needs
    loaded = state | {"taken": taken, "updates": 3}
    assert fresh.answer(None, "set_state", state=loaded) == (0, None)
    assert equal(fresh.get_state(), runner.get_state())
    one, other = (sampled_by(each) for each in (runner, fresh))
    assert where(one) == where(other)
    for mine, theirs in zip(one, other, strict=True):
        assert mine.get_actions().tolist() == theirs.get_actions().tolist()
    assert ended(one) == ended(other)


def test_an_error_is_returned_since_rllib_would_end_the_runner():
    _, error = runner_of({"steps": 1}).answer(0, "sample", weights={})
    assert isinstance(error, ValueError)
    assert "missing keys" in str(error)
