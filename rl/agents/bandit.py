"""Finds the best constant mixture by Thompson sampling, one training per play."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.rl.agents.search import PolicySearch, Search


class ThompsonSearch(PolicySearch):
    """Thompson sampling over constant shares and windows: the best fixed rule, tuned with the trainings of other
    searches.

    An arm is a share of each function but the first and a window, from a grid. Returns are modelled as normal, with one
    variance for all arms; an arm that was never played has the mean of all and their spread. A generation plays the
    arms with the highest draws, each once, since its seeds are shared. The arm with the highest posterior mean is kept.

    Args:
        candidates: arms played per generation. The budget is `episodes`: trainings in all.
        seeds: rankers trained per arm and play.
        levels: number of shares in the grid, from 0 to 1.
        windows: number of windows in the grid, from the hardest to the whole list.
    """

    rule = "schedule"

    @checked
    def __init__(
        self,
        candidates: Annotated[int, AtLeast(2)] = 8,
        seeds: Annotated[int, AtLeast(1)] = 1,
        levels: Annotated[int, AtLeast(2)] = 5,
        windows: Annotated[int, AtLeast(2)] = 4,
    ) -> None:
        super().__init__(candidates, seeds)
        self.levels, self.windows = levels, windows

    def start(self, size: int, generations: int, seed: int, features: Sequence[str] = ()) -> Search:
        return _Thompson((size - 3) // 2, self, np.random.default_rng(seed))


class _Thompson(Search):
    """A search over a grid.

    Args:
        parameters: parameters per arm: a share per function but the first, then the window's hardness. A search without
            windows has one more share, whose grid is then that of windows.
    """

    def __init__(self, parameters: int, options: ThompsonSearch, rng: np.random.Generator) -> None:
        shares = np.linspace(0, 1, options.levels)
        windows = np.linspace(0, 1, options.windows)
        grid = product(*[shares] * max(parameters - 1, 0), windows if parameters > 1 else shares)
        arms = np.array([arm for arm in grid if sum(arm[:-1]) <= 1 + 1e-9])
        # Schedules that stay where they begin (`pyrite.rl.mixture.ScheduleRule`).
        self.arms = np.concatenate([np.tile([0.0, 1.0, 0.5], (len(arms), 1)), np.repeat(arms, 2, axis=1)], axis=1)
        self.candidates, self.rng = min(options.candidates, len(arms)), rng
        self.plays, self.sums = np.zeros(len(arms)), np.zeros(len(arms))
        self.squares = 0.0

    def posterior(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and deviation of each arm's mean return. The prior is normal, with the level and spread of all
        arms.
        """
        played = self.plays > 0
        if not played.any():
            return np.zeros(len(self.arms)), np.ones(len(self.arms))
        means = self.sums[played] / self.plays[played]
        spread = max(float(means.var()), 1e-12)
        free = self.plays.sum() - played.sum()
        noise = max((self.squares - float((self.plays[played] * means**2).sum())) / free if free else spread, 1e-12)
        weight = self.plays / noise + 1 / spread
        return (self.sums / noise + float(means.mean()) / spread) / weight, 1 / np.sqrt(weight)

    def ask(self) -> NDArray[np.float64]:
        mean, deviation = self.posterior()
        draws = self.rng.normal(mean, deviation)
        self.requested = np.argsort(-draws, kind="stable")[: self.candidates]
        return self.arms[self.requested].copy()

    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        self.plays[self.requested] += 1
        self.sums[self.requested] += returns
        self.squares += float(np.square(returns).sum())

    def result(self) -> NDArray[np.float64]:
        mean, _ = self.posterior()
        return self.arms[int(np.where(self.plays > 0, mean, -np.inf).argmax())].copy()
