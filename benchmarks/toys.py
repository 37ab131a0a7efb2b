"""Defines small environments with a known optimum, for agents to be tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from pyrite.rl.networks import PolicyNetwork

STEPS = 20
"""Decisions of an episode."""


class EarlyLate(gymnasium.Env):  # type: ignore[type-arg]
    """Function 0 is better in the first half of an episode, function 1 in the second.

    The better one is worth 1 / STEPS and the other nothing, so the best return is 1 and a random agent's 0.5. The
    reward has noise of that size, as a small sample of validation queries has.

    Args:
        copy: index among all copies.
        seed: seed of the learning.
        matter: False makes both functions worth nothing.
    """

    def __init__(self, copy: int = 0, seed: int = 0, matter: bool = True) -> None:
        self.copy, self.seed, self.matter = copy, seed, matter
        self.observation_space = Dict({"model": Box(0.0, 1.0, (3,), np.float32)})
        self.action_space = Discrete(2)
        self.time = self.decision = self.right = 0
        self.episode, self.total, self.actions = -1, 0.0, list[int]()
        self.going = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if not self.going:
            self.time = self.right = 0
            self.episode, self.total, self.actions = self.episode + 1, 0.0, []
        self.going = False
        return self._observation(), self._info()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        good = int(action) == better(self.time)
        reward = self._reward(good)
        self.right += good
        self.time, self.decision = self.time + 1, self.decision + 1
        self.total += reward
        self.actions.append(int(action))
        return self._observation(), reward, self.time == STEPS, False, self._info() | self._summary()

    def _reward(self, good: bool) -> float:
        """Return the reward of a decision that took the better function or not."""
        noise = np.random.default_rng([self.seed, self.copy, self.decision, 1]).normal()
        return ((self.matter and good) + noise) / STEPS

    def _summary(self) -> dict[str, Any]:
        """Return the record of the episode so far, for the info of a step."""
        record = {"copy": self.copy, "episode": self.episode, "return": self.total, "decisions": len(self.actions)}
        return {"summary": record | {"actions": self.actions, "right": self.right / STEPS}}

    def _observation(self) -> dict[str, Any]:
        noise = np.random.default_rng([self.seed, self.copy, self.decision, 2]).random(2)
        return {"model": np.array([self.time / STEPS, *noise], np.float32)}

    def _info(self) -> dict[str, Any]:
        return {"copy": self.copy, "decision": self.decision}

    def state_dict(self) -> dict[str, Any]:
        names = ("time", "decision", "right", "episode", "total", "actions")
        return {name: copy(getattr(self, name)) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.actions = list(self.actions)
        self.going = True


def better(time: int) -> int:
    """The better function at a point of an episode."""
    return int(time >= STEPS // 2)


def maker(seed: int, matter: bool = True) -> Callable[[Sequence[int]], list[EarlyLate]]:
    """Return a factory of copies of the toy."""
    return lambda numbers: [EarlyLate(number, seed, matter) for number in numbers]


@torch.no_grad()
def shares_of_first(policy: PolicyNetwork) -> NDArray[np.float64]:
    """How often a policy takes function 0 at each point of an episode, float64 [STEPS]."""
    noise = np.random.default_rng(0).random((50, 2))
    seen = [np.column_stack([np.full(len(noise), time / STEPS), noise]) for time in range(STEPS)]
    chances = [torch.softmax(policy({"model": torch.tensor(rows, dtype=torch.float32)}), 1) for rows in seen]
    return torch.stack(chances)[..., 0].double().mean(1).numpy()


def policy_value(policy: PolicyNetwork) -> float:
    """The mean return of a policy, the noise left out: 1 is the optimum."""
    shares = shares_of_first(policy)
    return float(np.mean([shares[time] if better(time) == 0 else 1 - shares[time] for time in range(STEPS)]))
