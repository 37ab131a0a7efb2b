"""Fits a mixture policy to logged trainings: a regression on their returns, and what is best by it in each state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput

LEVELS = (0.02, 0.25, 0.5, 0.75, 0.98)
"""Of each number of an action that is tried: a linear rule reaches 0 and 1 nowhere."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LoggedTraining:
    """One training as it was logged.

    Args:
        states: float64 [decisions, features].
        actions: float64 [decisions, numbers]: the shares of the functions but the first, then the window's hardness.
        worth: its return, less that of others with its seeds.
    """

    states: Floats
    actions: Floats
    worth: float


class FittedQ:
    """Fitted Q iteration (Ernst et al. 2005) with a ridge regression, over trainings with one reward at their end.

    Q is linear in the state, quadratic in the action, and has their products: Q(s, a) = u·s + v·a + w·a² + s'Wa. The
    first fit takes each training's return for the value of all its decisions: that is the Q of who decided then. Each
    iteration takes the best action's value in the next state instead.

    Args:
        trainings: at least two.
        shares: how many of an action's numbers are shares, which add up to 1 at most.
        iterations: 0 stays at the regression on returns.
        ridge: penalty on the coefficients of features of unit variance, a decision.

    Raises:
        BadInput: where trainings are too few.
    """

    def __init__(
        self, trainings: Sequence[LoggedTraining], shares: int, iterations: int = 0, ridge: float = 0.01
    ) -> None:
        if len(trainings) < 2:
            what = f"{len(trainings)} logged trainings say nothing"
            raise BadInput(what, "agent.warm_start", "name a longer learning")
        self.states = np.concatenate([each.states for each in trainings])
        actions = np.concatenate([each.actions for each in trainings])
        ends = np.cumsum([len(each.states) for each in trainings]) - 1
        returns = np.repeat([each.worth for each in trainings], [len(each.states) for each in trainings])
        grid = np.array(list(product(LEVELS, repeat=actions.shape[1])))
        self.grid = grid[grid[:, :shares].sum(axis=1) <= 1]
        features = _features(self.states, actions)
        self.mean, self.scale = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
        designed = (features - self.mean) / self.scale
        inner = designed.T @ designed + ridge * len(designed) * np.eye(designed.shape[1])
        last = np.zeros(len(returns), bool)
        last[ends] = True
        self._fit(inner, designed, returns)
        for _ in range(iterations):
            following = np.append(self.values(self.states).max(axis=1)[1:], 0.0)
            self._fit(inner, designed, np.where(last, returns, following))

    def _fit(self, inner: Floats, designed: Floats, targets: Floats) -> None:
        self.level = float(targets.mean())
        self.weights = np.linalg.solve(inner, designed.T @ (targets - self.level))

    def values(self, states: Floats) -> Floats:
        """Q of each action of the grid [states, actions]."""
        each = np.repeat(states, len(self.grid), axis=0)
        features = _features(each, np.tile(self.grid, (len(states), 1)))
        return (self.level + (features - self.mean) / self.scale @ self.weights).reshape(len(states), -1)

    def best(self, states: Floats) -> Floats:
        """The best action of the grid in each state [states, numbers]."""
        return self.grid[self.values(states).argmax(axis=1)]

    def linear_rule(self, shares: int, ridge: float = 0.1) -> Floats:
        """Parameters of the `rl.mixture.LinearRule` that comes nearest to the best actions, by least squares of scores.

        Args:
            shares: how many of an action's numbers are shares.
            ridge: penalty a state: weights of features that say nothing stay near 0.
        """
        best, states = self.best(self.states), self.states
        rest = np.maximum(1 - best[:, :shares].sum(axis=1, keepdims=True), 0.02)
        scores = np.log(best / np.concatenate([np.repeat(rest, shares, axis=1), 1 - best[:, shares:]], axis=1))
        inner = states.T @ states + ridge * len(states) * np.eye(states.shape[1])
        return np.linalg.solve(inner, states.T @ scores).T.ravel()


def _features(states: Floats, actions: Floats) -> Floats:
    both = (states[:, :, None] * actions[:, None, :]).reshape(len(states), -1)
    return np.concatenate([states, actions, actions**2, both], axis=1)
