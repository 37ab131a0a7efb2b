"""Tests of `rl.agents.reinforce`, against returns worked by hand."""

import pytest
import torch
from ray.rllib.core.columns import Columns

from rl.agents.policy_gradient import ENDS
from rl.agents.reinforce import ReinforceLearner
from tests.rl.agents.learners import ACTOR_LR, GAMMA, episode_of, gradient, learner_of, observation, stepped


@pytest.mark.nightly
def test_returns_are_worked_out_backwards():
    learner = learner_of(ReinforceLearner)
    batch = {
        Columns.REWARDS: torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]),
        ENDS: torch.tensor([False, False, True, False, True]),
    }
    # The first episode terminated, the second was cut off where the critic said 10.
    returns = learner.targets(batch, torch.tensor([5.0, 5.0, 0.0, 5.0, 10.0]))
    expected = [1 + 0.9 * (2 + 0.9 * 4), 2 + 0.9 * 4, 4, 8 + 0.9 * (16 + 0.9 * 10), 16 + 0.9 * 10]
    assert torch.allclose(returns, torch.tensor(expected))


def test_reinforce_weighs_each_step_by_its_return_above_the_baseline():
    episode = episode_of(3, True)
    before, after, module = stepped(learner_of(ReinforceLearner), [episode])
    rewards = [float(episode.get_rewards(step)) for step in range(3)]
    returns = [sum(GAMMA**later * rewards[step + later] for later in range(3 - step)) for step in range(3)]
    total = torch.zeros(())
    for step in range(3):
        state = observation(episode, step)
        advantage = returns[step] - module.critic(state).item()
        total = total + advantage * torch.log_softmax(module.actor(state), 1)[0, int(episode.get_actions(step))]
    for name, direction in gradient(total / 3, module).items():
        assert torch.allclose(after[name], before[name] + ACTOR_LR * direction, atol=1e-6)
