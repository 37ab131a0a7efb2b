"""The training of a ranker as an environment, and several environments that step together."""

import warnings
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.rl.rewards import Raw
from pyrite.sampling.policies.policy import SamplingPolicy
from tests.ranking.trained import equal, weights
from tests.rl.documents import document_environment
from tests.rl.trainings import environment_of, starts


def play(environment) -> tuple[list, list, dict]:
    """An episode of both actions in turn: observations, rewards, the last info."""
    observation, _ = environment.reset()
    observations, rewards, done, actions = [observation], [], False, cycle((0, 1))
    while not done:
        observation, reward, done, cut, info = environment.step(next(actions))
        assert not cut
        observations.append(observation)
        rewards.append(reward)
    return observations, rewards, info


@pytest.mark.parametrize("environment", [environment_of, document_environment])
def test_gymnasium_accepts_it(tiny_sources, environment):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not wrapped.*|.*spec.*|.*Render.*|.*render.*")
        check_env(environment(tiny_sources), skip_render_check=True)


def test_an_episode_is_a_training(tiny_sources):
    environment = environment_of(tiny_sources)
    observations, rewards, info = play(environment)
    assert environment.training.done
    assert len(rewards) == 9  # three epochs of three batches
    assert info["summary"]["epochs"] == 3
    assert info["summary"]["steps"] == 9
    assert info["summary"]["share:bm25"] == pytest.approx(5 / 9)
    assert info["summary"]["validation"] == max(environment.training.validations)
    assert all(environment.observation_space.contains(observation) for observation in observations)
    assert [row["batches"] for row in environment.sampler.report()] == [5, 4]


def test_it_trains_as_a_run_with_the_same_choices_does(tiny_sources):
    """There is no second training loop: `fit` under a policy that repeats the actions gives the same weights."""

    class Repeats(SamplingPolicy):
        def choose(self, batch, training, rng):
            return np.full(len(batch), training.step % 2)

    environment = environment_of(tiny_sources)
    play(environment)
    training, sampler = starts(tiny_sources, Repeats)(np.random.SeedSequence(0, spawn_key=(1, 0, 0)))
    training.fit(sampler)
    environment.training.restore_best()
    assert equal(weights(environment.training.ranker), weights(training.ranker))


@pytest.mark.parametrize(
    ("decision_every", "decisions", "batches"),
    [(2, 5, [5, 4]), ("epoch", 3, [6, 3])],  # of two batches each, the last of one; of an epoch each
)
def test_an_action_is_held(tiny_sources, decision_every, decisions, batches):
    environment = environment_of(tiny_sources, decision_every=decision_every)
    _, rewards, info = play(environment)
    assert len(rewards) == info["decision"] == decisions
    assert [row["batches"] for row in environment.sampler.report()] == batches


def test_no_two_copies_and_no_two_episodes_share_a_seed(tiny_sources):
    copies = [environment_of(tiny_sources, copy=copy) for copy in range(3)]
    first = [play(copy)[0] for copy in copies]
    every = [*first, play(copies[0])[0]]
    assert not any(equal(every[i], every[j]) for i in range(4) for j in range(i))
    assert not equal(first[0], play(environment_of(tiny_sources, seed=1))[0])


def test_a_state_goes_on_to_the_last_bit(tiny_sources):
    whole = environment_of(tiny_sources, copy=2)
    play(whole)
    observations, rewards, info = play(whole)
    interrupted = environment_of(tiny_sources, copy=2)
    play(interrupted)
    before = [interrupted.reset()[0], *(interrupted.step(action)[0] for action in (0, 1, 0, 1))]
    resumed = environment_of(tiny_sources)
    resumed.copy = 2
    resumed.load_state_dict(from_bytes(to_bytes(interrupted.state_dict())))
    behind, more, last = play(resumed)
    assert equal(before + behind[1:], observations)
    assert equal([before[-1]], [behind[0]])
    assert more == rewards[4:]
    assert last == info


def test_a_ranker_that_diverges_ends_the_episode(tiny_sources):
    environment = environment_of(tiny_sources, reward=Raw())
    environment.reset()
    next(environment.training.ranker.parameters()).data.fill_(np.nan)
    observation, reward, done, _, info = environment.step(0)
    assert done
    assert reward == 0
    assert info["summary"]["diverged"] == 1
    assert environment.observation_space.contains(observation)


def test_an_objective_reads_the_functions_scores_as_in_training(tiny_sources):
    environment = environment_of(tiny_sources)
    environment.reset()
    seen: list[np.ndarray | None] = []
    update = environment.training.update

    def watched(batch, negatives, source_scores=None):
        seen.append(source_scores)
        return update(batch, negatives, source_scores)

    environment.training.update = watched
    environment.step(0)  # BM25, which has scores
    environment.step(1)  # random sampling, which has none
    assert len(seen) == 2
    assert np.isfinite(seen[0]).any()
    assert not np.isfinite(seen[1]).any()


def test_copies_that_step_in_turn_are_each_as_one_alone(tiny_sources):
    together, alone = ([environment_of(tiny_sources, copy=copy) for copy in range(3)] for _ in range(2))
    actions = [[number % 2, 1, 0] for number in range(14)]  # beyond the end of their episodes, at nine

    def step(environment: Any, action: int) -> tuple[Any, ...]:
        observation, *rest = environment.step(action)
        return observation, rest, environment.reset() if rest[1] else ()

    begun = [environment.reset() for environment in together]
    seen = [[step(environment, row[copy]) for copy, environment in enumerate(together)] for row in actions]
    for copy, environment in enumerate(alone):
        assert equal(environment.reset(), begun[copy])
        for row, steps in zip(actions, seen, strict=True):
            assert equal(step(environment, row[copy]), steps[copy])


def test_the_record_of_an_episode(tiny_sources):
    environment = environment_of(tiny_sources)
    for episode in range(2):
        _, rewards, info = play(environment)
        record = info["summary"]
        assert (record["copy"], record["episode"], record["decisions"]) == (environment.copy, episode, 9)
        assert record["actions"] == [0, 1] * 4 + [0]
        assert record["return"] == pytest.approx(sum(rewards))
