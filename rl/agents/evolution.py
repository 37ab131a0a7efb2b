"""Evolves the weights of a mixture policy by CMA-ES."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ranking.bounds import AtLeast, Positive, checked
from rl.agents.search import PolicySearch, Search


class Evolution(PolicySearch):
    """CMA-ES (Hansen 2016) over the weights of `rl.mixture.LinearRule`; the mean of its distribution is kept.

    It compares whole trainings. So there is no critic that is wrong at first and no discount, and a choice that costs
    at once and pays late is measured by what it pays. The mean is kept instead of the best candidate, because the best
    of many noisy returns is partly luck.

    Args:
        candidates: candidates per generation, at least 4. The budget is `episodes`: trainings in all.
        seeds: rankers trained per candidate. The candidates of a generation share their seeds; the next has new ones.
        sigma: the first standard deviation of each weight.

    Raises:
        BadInput: if an option is out of its range.
    """

    rule = "linear"

    @checked
    def __init__(
        self,
        candidates: Annotated[int, AtLeast(4)] = 8,
        seeds: Annotated[int, AtLeast(1)] = 1,
        sigma: Annotated[float, Positive] = 0.7,
    ) -> None:
        super().__init__(candidates, seeds)
        self.sigma = sigma

    def start(self, size: int, generations: int, seed: int) -> Search:
        return _Cma(np.zeros(size), self.sigma, self.candidates, seed)


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
