"""Tests of `rl.environment`: the training of a ranker as an environment."""

import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from rl.rewards import Raw
from sampling.policies.policy import SamplingPolicy
from tests.ranking.trained import equal, weights
from tests.rl.documents import document_environment
from tests.rl.trainings import environment_of, starts


def play(environment, actions) -> tuple[list, list, dict]:
    """An episode: observations, rewards, the last info."""
    observation, _ = environment.reset()
    observations, rewards, done = [observation], [], False
    actions = iter(actions)
    while not done:
        observation, reward, done, cut, info = environment.step(next(actions))
        assert not cut
        observations.append(observation)
        rewards.append(reward)
    return observations, rewards, info


def same(one: list, other: list) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a
    )


def alternating():
    while True:
        yield 0
        yield 1


@pytest.mark.parametrize("environment", [environment_of, document_environment])
def test_gymnasium_accepts_it(tiny_sources, environment):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not wrapped.*|.*spec.*|.*Render.*|.*render.*")
        check_env(environment(tiny_sources), skip_render_check=True)


def test_an_episode_is_a_training(tiny_sources):
    environment = environment_of(tiny_sources)
    observations, rewards, info = play(environment, alternating())
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
    play(environment, alternating())
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
    _, rewards, info = play(environment, alternating())
    assert len(rewards) == info["decision"] == decisions
    assert [row["batches"] for row in environment.sampler.report()] == batches


@pytest.mark.parametrize(
    ("environment", "decision_every"),
    [*((environment_of, each) for each in (0, -1, "batch")), *((document_environment, each) for each in (2, "epoch"))],
)
def test_hold_is_a_number_or_epoch_and_picks_are_for_one_batch(tiny_sources, environment, decision_every):
    with pytest.raises(BadInput, match="decision_every"):
        environment(tiny_sources, decision_every=decision_every)


def test_no_two_copies_and_no_two_episodes_share_a_seed(tiny_sources):
    copies = [environment_of(tiny_sources, copy=copy) for copy in range(3)]
    first = [play(copy, alternating())[0] for copy in copies]
    again = play(copies[0], alternating())[0]
    every = [*first, again]
    assert not any(same(every[i], every[j]) for i in range(4) for j in range(i))
    assert not same(first[0], play(environment_of(tiny_sources, seed=1), alternating())[0])


def test_a_state_goes_on_to_the_last_bit(tiny_sources):
    whole = environment_of(tiny_sources, copy=2)
    play(whole, alternating())
    observations, rewards, info = play(whole, alternating())
    interrupted = environment_of(tiny_sources, copy=2)
    play(interrupted, alternating())
    observation, _ = interrupted.reset()
    before = [observation]
    for action in (0, 1, 0, 1):
        before.append(interrupted.step(action)[0])
    resumed = environment_of(tiny_sources)
    resumed.copy = 2
    resumed.load_state_dict(from_bytes(to_bytes(interrupted.state_dict())))
    behind, more, last = play(resumed, alternating())
    assert same(before + behind[1:], observations)
    assert same([before[-1]], [behind[0]])
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
