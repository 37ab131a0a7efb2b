"""Trains a population under mixtures of its own, and lets those that fall behind go on from those ahead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from rl.agents.search import PolicySearch, Search
from rl.agents.time_varying_bandit import favoured

Floats = NDArray[np.float64]


class PopulationSearch(PolicySearch):
    """Population based bandits (PB2, Parker-Holder et al. 2020) over shares and windows.

    A generation of rankers trains side by side, with the same seeds, each on an action of its own. After each part of
    the budget those with the lowest validation go on from the state of one of the highest, on an action that a Gaussian
    process over (time, action) → gain in validation favours; the others stay as they are. What is kept is the line of
    actions, part by part, that led to the best ranker of the last generation: an open-loop schedule. A part should be
    long, or what pays late is killed before it does.

    Ray Tune's PB2 does the same with the order in which trials report and global generators; here the numbers are the
    same wherever the parts are trained, and a search that was interrupted goes on.

    Args:
        candidates: rankers of a generation.
        parts: of the budget, after each of which they are compared.
        quantile: share of them that falls behind, and of those ahead.
        kappa: deviations that are added to the mean where the process looks for an action.
    """

    rule = "steps"

    def __init__(self, candidates: int = 8, parts: int = 5, quantile: float = 0.25, kappa: float = 1.0) -> None:
        super().__init__(candidates, 1)
        if parts < 2:
            raise BadInput(f"parts is {parts}", "agent.parts", "choose a whole number from 2 up")
        if not 1 / candidates <= quantile <= 0.5:
            raise BadInput(f"quantile is {quantile}", "agent.quantile", "choose a share from one candidate's to 0.5")
        if kappa < 0:
            raise BadInput(f"kappa is {kappa}", "agent.kappa", "choose a number from 0 up")
        self.parts, self.quantile, self.kappa = parts, quantile, kappa

    def start(self, size: int, generations: int, seed: int) -> Search:
        return _Population(size, self, np.random.default_rng(seed))


class _Population(Search):
    """One search.

    Args:
        numbers: of an action.
        options: of the search.
        rng: draws actions.
    """

    def __init__(self, numbers: int, options: PopulationSearch, rng: np.random.Generator) -> None:
        self.options, self.rng, self.numbers = options, rng, numbers
        self.known: list[tuple[Floats, float]] = []  # (part, action) and what validation gained in it
        self.part = 0
        self._begin()

    def _begin(self) -> None:
        """A fresh generation: actions by what earlier ones say, or evenly at random."""
        count = self.options.candidates
        drawn = self.rng.random((count, self.numbers)) if not self.known else self._favoured(0, count)
        self.lines = np.repeat(drawn[:, None], self.options.parts, axis=1)  # an action a part
        self.parents: list[int] = list(range(count))
        self.scores = np.zeros(count)

    @property
    def until(self) -> float:
        return (self.part + 1) / self.options.parts

    def parent(self, candidate: int) -> int | None:
        return self.parents[candidate] if self.part else None

    def ask(self) -> Floats:
        return self.lines.reshape(len(self.lines), -1).copy()

    def tell(self, candidates: Floats, returns: Floats) -> None:
        """Returns are what validation is at the end of the part, and after the last one the best checkpoint's."""
        if self.part:  # the first part's gain has the beginning in it, which is no action's
            gains = returns - self.scores[self.parents]
            for line, gain in zip(self.lines, gains, strict=True):
                self.known.append((np.append(self.part / self.options.parts, line[self.part]), float(gain)))
        else:
            for line, score in zip(self.lines, returns - returns.mean(), strict=True):
                self.known.append((np.append(0.0, line[0]), float(score)))
        self.scores = returns.copy()
        self.part += 1
        if self.part < self.options.parts:
            self._exploit()
        else:
            self.best = self.lines[int(self.scores.argmax())].ravel().copy()
            self.part = 0
            self._begin()

    def _exploit(self) -> None:
        """Let the last go on from the first, each on another action."""
        count = max(1, round(self.options.quantile * len(self.scores)))
        order = np.argsort(self.scores, kind="stable")
        behind, ahead = order[:count], order[-count:]
        self.parents = list(range(len(self.scores)))
        for loser, action in zip(behind, self._favoured(self.part, count), strict=True):
            chosen = int(self.rng.choice(ahead))
            self.parents[loser] = chosen
            self.lines[loser] = self.lines[chosen]
            self.lines[loser, self.part :] = action

    def _favoured(self, part: int, count: int) -> Floats:
        """Actions that a Gaussian process favours in a part."""
        inputs = np.array([one for one, _ in self.known])
        gains = np.array([gain for _, gain in self.known])
        return favoured(inputs, gains, part / self.options.parts, count, self.rng, self.options.kappa)

    def result(self) -> Floats:
        return self.best
