"""Tests of `rl.agents.policy_gradient`: what actor-critic and REINFORCE share."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiDiscrete
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from rl.agents.actor_critic import ActorCriticLearner
from rl.agents.policy_gradient import ENDS, _running_rms, transitions
from tests.rl.agents.learners import ACTOR_LR, GAMMA, episode_of, gradient, learner_of, observation, stepped


def test_copies_that_step_together_are_averaged():
    episodes = [episode_of(1, False, seed=seed) for seed in range(3)]
    _, together, _ = stepped(learner_of(ActorCriticLearner), episodes)
    moves = []
    for episode in episodes:
        before, after, _ = stepped(learner_of(ActorCriticLearner), [episode])
        moves.append({name: after[name] - before[name] for name in after})
    for name in together:
        mean = torch.stack([move[name] for move in moves]).mean(0)
        assert torch.allclose(together[name] - before[name], mean, atol=1e-6)


@pytest.mark.nightly
def test_normalized_advantages_have_the_size_of_one():
    episodes = [episode_of(1, False, seed=seed) for seed in range(3)]
    before, plain, module = stepped(learner_of(ActorCriticLearner), episodes)
    learner = learner_of(ActorCriticLearner, normalize=True)
    after = stepped(learner, episodes)[1]
    states, following = ({"model": torch.cat([observation(e, i)["model"] for e in episodes])} for i in (0, 1))
    rewards = torch.tensor([float(episode.get_rewards(0)) for episode in episodes])
    with torch.no_grad():
        deltas = rewards + GAMMA * module.critic(following)[:, 0] - module.critic(states)[:, 0]
    size = deltas.square().mean().sqrt()
    for name in before:
        shrunk = size if name.startswith("actor") else 1.0
        assert torch.allclose(after[name] - before[name], (plain[name] - before[name]) / shrunk, atol=1e-6), name
    # Of two batches so far, the older one weighs 0.99 of the newer.
    advantages = deltas * 10
    moments = learner.module[DEFAULT_MODULE_ID].advantage_moments
    expected = ((0.99 * size**2 + advantages.square().mean()) / 1.99).sqrt()
    assert torch.isclose(_running_rms(moments, advantages), expected, rtol=1e-5)


@pytest.mark.nightly
def test_entropy_is_maximised_beside_it():
    episode = episode_of(4, True)
    plain = stepped(learner_of(ActorCriticLearner), [episode])[1]
    learner = learner_of(ActorCriticLearner, entropy=0.5)
    _, after, module = stepped(learner, [episode])
    seen = {"model": torch.from_numpy(episode.get_observations(slice(0, 4))["model"])}
    entropy = torch.distributions.Categorical(logits=module.actor(seen)).entropy().mean()
    for name, direction in gradient(entropy, module).items():
        assert torch.allclose(after[name], plain[name] + ACTOR_LR * 0.5 * direction, atol=1e-6)


@pytest.mark.nightly
def test_several_picks_are_one_action():
    episode = episode_of(1, True, picks=2)
    before, after, module = stepped(learner_of(ActorCriticLearner, MultiDiscrete([3, 3])), [episode])
    state = observation(episode, 0)
    delta = float(episode.get_rewards(0)) - module.critic(state).item()
    first, second = torch.log_softmax(module.actor(state).view(2, 3), 1)
    picks = episode.get_actions(0)
    for name, direction in gradient(first[picks[0]] + second[picks[1]], module).items():
        assert torch.allclose(after[name], before[name] + ACTOR_LR * delta * direction, atol=1e-6)


def test_transitions_keep_order_and_ends():
    episodes = [episode_of(2, True, seed=1), episode_of(3, False, seed=2)]
    rows = transitions(episodes).policy_batches[DEFAULT_MODULE_ID]
    assert rows[Columns.TERMINATEDS].tolist() == [False, True, False, False, False]
    assert rows[ENDS].tolist() == [False, True, False, False, True]
    for row, (episode, step) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]):
        own = episodes[episode]
        assert np.array_equal(rows[Columns.OBS]["model"][row], own.get_observations(step)["model"])
        assert np.array_equal(rows[Columns.NEXT_OBS]["model"][row], own.get_observations(step + 1)["model"])
        assert rows[Columns.ACTIONS][row] == own.get_actions(step)
