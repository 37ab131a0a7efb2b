"""Tests of `rl.agents.agent`: agents learn what there is to learn, and refuse what they can't be."""

import numpy as np
import pytest
import torch

from benchmarks.toys import EarlyLate, maker, policy_value, shares_of_first
from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from rl.agents.actor_critic import ActorCritic
from rl.agents.ppo import PPO
from rl.agents.random import RandomAgent
from rl.agents.reinforce import Reinforce
from rl.agents.trainer import AgentTrainer
from rl.networks import described
from tests.rl.agents.toys import SMALL, equal, play


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


def test_the_random_agent_learns_nothing_and_is_uniform(start):
    trainer = start(RandomAgent())
    before = trainer.policy_weights()
    rows = play(trainer, 40)
    assert all(torch.equal(before[name], value) for name, value in trainer.policy_weights().items())
    assert np.array_equal(shares_of_first(described(trainer.network, before)), np.full(20, 0.5))
    assert abs(np.mean([row["actions"] for row in rows]) - 0.5) < 0.08


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("actor_critic", 2, marks=pytest.mark.nightly),
        pytest.param("ppo", 0, marks=pytest.mark.nightly),
        pytest.param("ppo_episodes", 0, marks=pytest.mark.nightly),
        ("reinforce", 0),
    ],
)
def test_neither_runners_nor_interrupts_change_what_is_learned(name, workers, start):
    updates = {"reinforce": 2, "ppo": 3, "ppo_episodes": 2}.get(name, 9)  # in mid-episode for two of them
    agent = (lambda: ActorCritic(hidden=20, fragment=3)) if name == "actor_critic" else SMALL[name]
    whole = start(agent())
    before = play(whole, updates)
    middle = to_bytes(whole.state())
    after = play(whole, updates)
    assert whole.counters["episodes"] == len(before + after) > 0
    other, fresh = start(agent(), workers=workers), start(agent())

    def ends_alike(trainer: AgentTrainer) -> bool:
        rows = play(trainer, updates)
        return rows == after and equal(trainer.state(), whole.state()) and trainer.counters == whole.counters

    assert play(other, updates) == before
    theirs = to_bytes(other.state())
    assert equal(from_bytes(theirs), from_bytes(middle))
    assert ends_alike(other), "with other runners"
    fresh.restore(from_bytes(theirs))
    assert ends_alike(fresh), "begun by other runners"
    other.restore(from_bytes(middle))
    assert ends_alike(other), "begun in this process"


def test_the_state_of_another_agent_is_refused(start):
    trainer = start(SMALL["actor_critic"]())
    state = from_bytes(to_bytes(trainer.state()))
    with pytest.raises(BadInput, match="holds another agent"):
        start(ActorCritic(hidden=21)).restore(state)
    with pytest.raises(BadInput, match="with 2 copies, not 4"):
        trainer.restore(state | {"tallies": state["tallies"][:2]})
