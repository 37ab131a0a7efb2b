"""Agents learn what there is to learn, and a seed gives one result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.toys import EarlyLate, maker, policy_value, shares_of_first
from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from rl.agents.actor_critic import ActorCritic
from rl.agents.agent import Agent
from rl.agents.ppo import PPO
from rl.agents.random import RandomAgent
from rl.agents.reinforce import Reinforce
from rl.agents.trainer import AgentTrainer
from rl.copies import Copies
from rl.networks import described

SMALL: dict[str, Callable[[], Agent]] = {
    "actor_critic": lambda: ActorCritic(hidden=20),
    "reinforce": lambda: Reinforce(hidden=20),
    "ppo": lambda: PPO(hidden=20, fragment=9, minibatch=16, epochs=2),
    "ppo_episodes": lambda: PPO(hidden=20, episodes=1, minibatch=16, epochs=2),
    "random": RandomAgent,
}


@pytest.fixture
def start(ray_session: None) -> Any:
    """Starts trainers, and closes them in the end."""
    threads, trainers = torch.get_num_threads(), []

    def build(agent: Agent, seed: int = 0, workers: int = 0, copies: int = 4, matter: bool = True) -> AgentTrainer:
        spaces = EarlyLate().observation_space, EarlyLate().action_space
        trainer = agent.build(maker(seed, matter), *spaces, seed=seed, workers=workers, copies=copies, cpus=0.5)
        trainers.append(trainer)
        return trainer

    yield build
    for trainer in trainers:
        trainer.close()
    torch.set_num_threads(threads)


def play(trainer: AgentTrainer, updates: int) -> list[dict[str, Any]]:
    return [row for _ in range(updates) for row in trainer.update()]


def equal(one: Any, other: Any) -> bool:
    """Whether two states are the same to the last bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize(("name", "workers"), [("actor_critic", 2), ("ppo", 2), ("ppo_episodes", 0), ("reinforce", 0)])
def test_neither_runners_nor_interrupts_change_what_is_learned(name: str, workers: int, start: Any) -> None:
    updates = {"reinforce": 2, "ppo": 3, "ppo_episodes": 2}.get(name, 27)  # in mid-episode for two of them
    whole = start(SMALL[name]())
    before = play(whole, updates)
    middle = to_bytes(whole.state())
    after = play(whole, updates)
    assert whole.counters["episodes"] == len(before + after) > 0
    other, fresh = start(SMALL[name](), workers=workers), start(SMALL[name]())

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


def test_another_seed_gives_other_weights_and_actions(start: Any) -> None:
    one, other = start(SMALL["actor_critic"](), seed=0), start(SMALL["actor_critic"](), seed=1)
    assert [row["actions"] for row in play(one, 20)] != [row["actions"] for row in play(other, 20)]
    assert not equal(one.state()["weights"], other.state()["weights"])


@pytest.mark.parametrize(
    ("agent", "updates"),
    [
        (ActorCritic(actor_lr=0.003, critic_lr=0.003), 500),
        (PPO(lr=0.005, fragment=40, epochs=8), 12),
        (Reinforce(actor_lr=0.005, critic_lr=0.01), 80),
    ],
)
def test_it_learns_which_function_is_better_when(agent: Agent, updates: int, start: Any) -> None:
    trainer = start(agent, copies=8)
    policy = described(trainer.network, trainer.policy_weights())
    assert abs(policy_value(policy) - 0.5) < 0.02
    play(trainer, updates)
    assert policy_value(described(trainer.network, trainer.policy_weights())) > 0.8


class Hundreds(EarlyLate):
    """Every return is far above √10, as gains in hundredths of average precision are."""

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, 100 * reward + 50, *rest


def test_the_critic_of_ppo_learns_however_large_returns_are(start: Any) -> None:
    toy, make = Hundreds(), lambda first, count: Copies([Hundreds(first + i) for i in range(count)])
    trainer = PPO(hidden=20, episodes=1, epochs=2).build(make, toy.observation_space, toy.action_space, copies=4)
    try:
        before = trainer.state()["weights"]["critic.output.bias"].clone()
        play(trainer, 2)
        assert not torch.equal(trainer.state()["weights"]["critic.output.bias"], before)
    finally:
        trainer.close()


def test_ppo_learns_from_whole_episodes(start: Any) -> None:
    trainer = start(PPO(hidden=20, episodes=2, minibatch=1000, epochs=1))
    rows = play(trainer, 2)
    assert trainer.counters == {"updates": 2, "decisions": 2 * 2 * 4 * 20, "episodes": 16, "lost": 0}
    assert {row["length"] for row in rows} == {20}


def test_where_nothing_matters_it_claims_nothing(start: Any) -> None:
    trainer = start(ActorCritic(), copies=8, matter=False)
    play(trainer, 300)
    shares = shares_of_first(described(trainer.network, trainer.policy_weights()))
    assert 0.2 < shares.mean() < 0.8


def test_the_random_agent_learns_nothing_and_is_uniform(start: Any) -> None:
    trainer = start(RandomAgent())
    before = trainer.policy_weights()
    rows = play(trainer, 100)
    assert all(torch.equal(before[name], value) for name, value in trainer.policy_weights().items())
    assert np.array_equal(shares_of_first(described(trainer.network, before)), np.full(20, 0.5))
    assert abs(np.mean([row["actions"] for row in rows]) - 0.5) < 0.06


def test_counters_and_summaries(start: Any) -> None:
    trainer = start(ActorCritic(hidden=5, fragment=5))
    rows = play(trainer, 4)
    assert trainer.counters == {"updates": 4, "decisions": 80, "episodes": 4, "lost": 0}
    assert [(row["copy"], row["episode"], row["length"]) for row in rows] == [(copy, 0, 20) for copy in range(4)]
    for row in rows:
        right = np.mean([action == (time >= 10) for time, action in enumerate(row["actions"])])
        assert row["summary"] == {"right": right}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"copies": 5, "workers": 2}, "5 copies can't be shared out equally among 2 runners"),
        ({"copies": 0}, "0 copies"),
        ({"gamma": 1.1}, "γ is 1.1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_cannot_be_built_is_refused(options: dict[str, Any], says: str) -> None:
    environment = EarlyLate()
    with pytest.raises(BadInput, match=says):
        ActorCritic().build(maker(0), environment.observation_space, environment.action_space, **options)


@pytest.mark.parametrize(
    ("agent", "options", "says"),
    [
        (ActorCritic, {"actor_lr": 0.0}, "agent.actor_lr: actor_lr is 0.0"),
        (ActorCritic, {"critic_lr": -1.0}, "critic_lr"),
        (ActorCritic, {"entropy": -0.1}, "entropy"),
        (ActorCritic, {"fragment": 0}, "fragment"),
        (ActorCritic, {"optimizer": "lion"}, "optimizer"),
        (ActorCritic, {"hidden": 0}, "hidden"),
        (Reinforce, {"episodes": 0}, "episodes"),
        (Reinforce, {"critic_lr": float("nan")}, "critic_lr"),
        (PPO, {"lr": 0.0}, "lr"),
        (PPO, {"minibatch": 0}, "minibatch"),
        (PPO, {"lam": 1.5}, "lam"),
        (PPO, {"episodes": 0}, "episodes"),
    ],
)
def test_options_that_cannot_be_are_refused(agent: type[Agent], options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        agent(**options)


def test_the_state_of_another_agent_is_refused(start: Any) -> None:
    state = from_bytes(to_bytes(start(SMALL["actor_critic"]()).state()))
    with pytest.raises(BadInput, match="holds another agent"):
        start(ActorCritic(hidden=21)).restore(state)
    with pytest.raises(BadInput, match="holds another agent"):
        start(SMALL["ppo"]()).restore(state)
    with pytest.raises(BadInput, match="with 4 copies, not 2"):
        start(SMALL["actor_critic"](), copies=2).restore(state)
