"""Tests of `rl.agents.actor_critic`, against equations 9–11 of Cohen et al. 2019 by hand."""

from typing import Any

import pytest
import torch

from cluster.config.build import build
from cluster.config.groups import option
from rl.agents.actor_critic import ActorCritic, ActorCriticLearner
from tests.rl.agents.learners import ACTOR_LR, CRITIC_LR, GAMMA, episode_of, gradient, learner_of, observation, stepped


def assert_equations_9_to_11(episode: Any, terminated: bool = False, **options: Any) -> None:
    """Hold one update, at the learning rates of `options`, against the equations by hand."""
    rates = {"actor_lr": ACTOR_LR, "critic_lr": CRITIC_LR} | options
    before, after, module = stepped(learner_of(ActorCriticLearner, **rates), [episode])
    state, following = observation(episode, 0), observation(episode, 1)
    value = module.critic(state).squeeze()
    expected_next = 0.0 if terminated else module.critic(following).item()  # cut off is not over
    delta = float(episode.get_rewards(0)) + GAMMA * expected_next - value.item()
    moved = gradient(value, module)
    log_chance = torch.log_softmax(module.actor(state), 1)[0, int(episode.get_actions(0))]
    moved |= {name: part for name, part in gradient(log_chance, module).items() if name.startswith("actor")}
    assert len(moved) == len(before)
    for name, direction in moved.items():
        rate = rates["actor_lr" if name.startswith("actor") else "critic_lr"]
        assert torch.allclose(after[name], before[name] + rate * delta * direction, atol=1e-6), name
        assert direction.abs().max() > 0


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True), (False, False)])
def test_one_step_follows_equations_9_to_11(terminated, truncated):
    assert_equations_9_to_11(episode_of(1, terminated, truncated), terminated)


def test_the_agent_as_printed_follows_equations_9_to_11_and_nothing_else():
    printed: ActorCritic = build(option("agent", "as_printed"))
    assert printed.options["quota"] == {"steps": 1}
    options = {name: value for name, value in printed.options.items() if name != "quota"}
    assert_equations_9_to_11(episode_of(1, False), **options | {"actor_lr": 0.5})
