"""Tests of `rl.agents.ppo`."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.toys import EarlyLate
from rl.agents.ppo import PPO
from rl.copies import Copies
from tests.rl.agents.toys import play


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
    assert trainer.counters == {"updates": 2, "decisions": 2 * 2 * 4 * 20, "episodes": 16}
    assert {row["length"] for row in rows} == {20}
