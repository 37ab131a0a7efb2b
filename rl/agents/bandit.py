"""Finds the best constant mixture by Thompson sampling, a training a play."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from rl.agents.search import PolicySearch, Search


class ThompsonSearch(PolicySearch):
    """Thompson sampling over constant shares and windows: the best fixed rule, tuned with as many trainings as others.

    An arm is a share of each function but the first and a window, from a grid. Returns are taken for normal, with one
    variance for all arms; an arm that was never played has the mean of all and their spread. A generation plays the
    arms whose draws are the highest, each once, since its seeds are shared. The arm with the highest posterior mean is
    kept.

    Args:
        candidates: arms that a generation plays.
        seeds: rankers that each trains.
        levels: shares of the grid, from 0 to 1.
        windows: windows of the grid, from the hardest to the whole list.
    """

    rule = "schedule"

    def __init__(self, candidates: int = 8, seeds: int = 1, levels: int = 5, windows: int = 4) -> None:
        super().__init__(candidates, seeds)
        for name, value in (("levels", levels), ("windows", windows)):
            if value < 2:
                raise BadInput(f"{name} is {value}", f"agent.{name}", "choose a whole number from 2 up")
        self.levels, self.windows = levels, windows

    def start(self, size: int, generations: int, seed: int) -> Search:
        return _Thompson((size - 3) // 2, self, np.random.default_rng(seed))


class _Thompson(Search):
    """One search.

    Args:
        numbers: of an arm: shares, and what there is of a window. The last is the window's hardness; a search that has
            no window has one share more, whose grid is then that of windows.
        options: of the search.
        rng: draws from the posteriors.
    """

    def __init__(self, numbers: int, options: ThompsonSearch, rng: np.random.Generator) -> None:
        shares = np.linspace(0, 1, options.levels)
        windows = np.linspace(0, 1, options.windows)
        grid = product(*[shares] * max(numbers - 1, 0), windows if numbers > 1 else shares)
        arms = np.array([arm for arm in grid if sum(arm[:-1]) <= 1 + 1e-9])
        # A schedule that stays where it begins (`rl.mixture.ScheduleRule`).
        self.arms = np.concatenate([np.tile([0.0, 1.0, 0.5], (len(arms), 1)), np.repeat(arms, 2, axis=1)], axis=1)
        self.candidates, self.rng = min(options.candidates, len(arms)), rng
        self.plays, self.sums = np.zeros(len(arms)), np.zeros(len(arms))
        self.squares = 0.0

    def posterior(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and deviation of each arm's mean return: a normal prior of all arms' level and spread, and its own."""
        played = self.plays > 0
        if not played.any():
            return np.zeros(len(self.arms)), np.ones(len(self.arms))
        own = self.sums[played] / self.plays[played]
        spread = max(float(own.var()), 1e-12)
        free = self.plays.sum() - played.sum()
        noise = max((self.squares - float((self.plays[played] * own**2).sum())) / free if free else spread, 1e-12)
        weight = self.plays / noise + 1 / spread
        return (self.sums / noise + float(own.mean()) / spread) / weight, 1 / np.sqrt(weight)

    def ask(self) -> NDArray[np.float64]:
        mean, deviation = self.posterior()
        draws = self.rng.normal(mean, deviation)
        self.asked = np.argsort(-draws, kind="stable")[: self.candidates]
        return self.arms[self.asked].copy()

    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        self.plays[self.asked] += 1
        self.sums[self.asked] += returns
        self.squares += float(np.square(returns).sum())

    def result(self) -> NDArray[np.float64]:
        mean, _ = self.posterior()
        return self.arms[int(np.where(self.plays > 0, mean, -np.inf).argmax())].copy()
