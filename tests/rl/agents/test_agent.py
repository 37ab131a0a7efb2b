"""Tests of `rl.agents.agent`: agents learn what there is to learn, and refuse what they can't be."""

import pytest

from benchmarks.toys import EarlyLate, maker, policy_value
from ranking.errors import BadInput
from rl.agents.actor_critic import ActorCritic
from rl.agents.ppo import PPO
from rl.agents.reinforce import Reinforce
from rl.networks import described
from tests.rl.agents.toys import play


@pytest.mark.parametrize(
    ("agent", "updates"),
    [
        pytest.param(ActorCritic(actor_lr=0.003, critic_lr=0.003), 500, marks=pytest.mark.nightly),
        (PPO(lr=0.005, fragment=40, epochs=8), 12),
        pytest.param(Reinforce(actor_lr=0.005, critic_lr=0.01), 80, marks=pytest.mark.nightly),
    ],
)
def test_it_learns_which_function_is_better_when(agent, updates, start):
    trainer = start(agent, copies=8)
    policy = described(trainer.network, trainer.policy_weights())
    assert abs(policy_value(policy) - 0.5) < 0.02
    play(trainer, updates)
    assert policy_value(described(trainer.network, trainer.policy_weights())) > 0.8


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"copies": 5, "workers": 2}, "5 copies can't be divided equally among 2 runners"),
        ({"copies": 0}, "0 copies"),
        ({"gamma": 1.1}, "γ is 1.1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_built_is_refused(options, says):
    environment = EarlyLate()
    with pytest.raises(BadInput, match=says):
        ActorCritic().build(maker(0), environment.observation_space, environment.action_space, **options)
