"""Tests of `pyrite.rl.agents.agent`: agents learn what there is to learn, and refuse what they can't be."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiDiscrete
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

from benchmarks.toys import policy_value, shares_of_first
from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import option
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.rl.agents.actor_critic import ActorCritic, ActorCriticLearner
from pyrite.rl.agents.agent import Agent
from pyrite.rl.agents.policy_gradient import ENDS, _running_rms, transitions
from pyrite.rl.agents.ppo import PPO
from pyrite.rl.agents.random import RandomAgent
from pyrite.rl.agents.reinforce import Reinforce, ReinforceLearner
from pyrite.rl.networks import described
from pyrite.rl.rllib.algorithm import Lockstep
from tests.ranking.trained import equal
from tests.rl.agents.conftest import play
from tests.rl.agents.learners import ACTOR_LR, CRITIC_LR, GAMMA, episode_of, gradient, learner_of, observation, stepped

SMALL: dict[str, Agent] = {
    "actor_critic": ActorCritic(hidden=20, fragment=3),
    "reinforce": Reinforce(hidden=20),
    "ppo": PPO(hidden=20, fragment=9, minibatch=16, epochs=2),
    "ppo_episodes": PPO(hidden=20, episodes=1, minibatch=16, epochs=2),
}


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


def test_the_random_agent_learns_nothing_and_is_uniform(start):
    trainer = start(RandomAgent())
    before = trainer.policy_weights()
    rows = play(trainer, 40)
    assert equal(trainer.policy_weights(), before)
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
    agent = SMALL[name]
    whole = start(agent)
    before = play(whole, updates)
    middle = to_bytes(whole.get_state())
    after = play(whole, updates)
    assert whole.counters["episodes"] == len(before + after) > 0
    other, fresh = start(agent, workers=workers), start(agent)

    def ends_alike(trainer: Lockstep) -> bool:
        rows = play(trainer, updates)
        return rows == after and equal(trainer.get_state(), whole.get_state()) and trainer.counters == whole.counters

    assert play(other, updates) == before
    theirs = to_bytes(other.get_state())
    assert equal(from_bytes(theirs), from_bytes(middle))
    assert ends_alike(other), "with other runners"
    fresh.set_state(from_bytes(theirs))
    assert ends_alike(fresh), "begun by other runners"
    other.set_state(from_bytes(middle))
    assert ends_alike(other), "begun in this process"


def test_the_state_of_another_agent_is_refused(start):
    trainer = start(SMALL["actor_critic"])
    state = from_bytes(to_bytes(trainer.get_state()))
    with pytest.raises(BadInput, match="holds another agent"):
        start(ActorCritic(hidden=21)).set_state(state)
    with pytest.raises(BadInput, match="with 2 copies, not 4"):
        trainer.set_state(state | {"copies": state["copies"][:2]})


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
    printed: ActorCritic = build(option("agent", "as_printed"), trust="composed")
    assert printed.quota == {"steps": 1}
    assert_equations_9_to_11(episode_of(1, False), **printed.options | {"actor_lr": 0.5})


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
