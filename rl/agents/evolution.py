"""Evolves the weights of a mixture policy by CMA-ES."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from rl.agents.fitted import FittedQ, LoggedTraining
from rl.agents.search import PolicySearch, Search


class Evolution(PolicySearch):
    """CMA-ES (Hansen 2016) over the weights of `rl.mixture.LinearRule`; the mean of its distribution is kept.

    It compares whole trainings, so that it has no critic that is wrong at first and no discount, and what a choice
    costs at once and pays late is seen as it is. The mean is kept and not the best candidate, which chance has helped.

    Args:
        candidates: of a generation, from 4 up.
        seeds: rankers that each candidate trains.
        sigma: the first standard deviation of each weight.
        warm_start: folder or URI of an earlier learning of the same functions, actions and features: it begins at the
            policy that a regression on the returns of its trainings finds (`rl.agents.fitted`).
        iterations: of fitted Q; 0 stays at the regression on returns.
    """

    rule = "linear"

    def __init__(
        self,
        candidates: int = 8,
        seeds: int = 1,
        sigma: float = 0.7,
        warm_start: str | None = None,
        iterations: int = 0,
    ) -> None:
        super().__init__(candidates, seeds)
        if candidates < 4:
            raise BadInput(f"candidates is {candidates}", "agent.candidates", "choose a whole number from 4 up")
        if not 0 < sigma < math.inf:
            raise BadInput(f"sigma is {sigma}", "agent.sigma", "give a number above 0")
        if iterations < 0:
            raise BadInput(f"iterations is {iterations}", "agent.iterations", "choose a whole number from 0 up")
        self.sigma, self.warm_start, self.iterations = sigma, warm_start, iterations

    def start(
        self, size: int, generations: int, seed: int, logged: Sequence[LoggedTraining] = (), shares: int = 1
    ) -> Search:
        if not logged:
            return _Cma(np.zeros(size), self.sigma, self.candidates, seed)
        begin = FittedQ(logged, shares, self.iterations).linear_rule(shares)
        return _Cma(begin, self.sigma, self.candidates, seed)


class _Cma(Search):
    def __init__(self, mean: NDArray[np.float64], sigma: float, candidates: int, seed: int) -> None:
        from cmaes import CMA

        self.cma = CMA(mean=mean, sigma=sigma, population_size=candidates, seed=seed)

    def ask(self) -> NDArray[np.float64]:
        return np.stack([self.cma.ask() for _ in range(self.cma.population_size)])

    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        self.cma.tell([(one, -float(value)) for one, value in zip(candidates, returns, strict=True)])

    def result(self) -> NDArray[np.float64]:
        return np.asarray(self.cma.mean, np.float64).copy()
