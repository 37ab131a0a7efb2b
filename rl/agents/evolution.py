"""Evolves the weights of a mixture policy by CMA-ES."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.rl.agents.search import PolicySearch, Search
from pyrite.rl.progress import TYPICAL


class Evolution(PolicySearch):
    """CMA-ES (Hansen 2016) over the weights of `pyrite.rl.mixture.LinearRule`; the mean of its distribution is kept.

    It compares whole trainings. So there is no critic that is wrong at first and no discount, and a choice that costs
    at once and pays late is measured by what it pays. The mean is kept instead of the best candidate, because the best
    of many noisy returns is partly luck.

    Args:
        candidates: candidates per generation, at least 4. The budget is `episodes`: trainings in all.
        seeds: rankers trained per candidate. The candidates of a generation share their seeds; the next has new ones.
        sigma: the first standard deviation of each weight, for features scaled by `pyrite.rl.progress.TYPICAL`: a
            weight of 2 takes a share from a tenth to nine tenths between two typical values of a feature.
    """

    rule = "linear"

    @checked
    def __init__(
        self,
        candidates: Annotated[int, AtLeast(4)] = 8,
        seeds: Annotated[int, AtLeast(1)] = 1,
        sigma: Annotated[float, Positive] = 2.0,
    ) -> None:
        super().__init__(candidates, seeds)
        self.sigma = sigma

    def start(self, size: int, generations: int, seed: int, features: Sequence[str] = ()) -> Search:
        return _Cma(np.zeros(size), self.sigma, self.candidates, seed, scaling(features))


def scaling(features: Sequence[str]) -> NDArray[np.float64]:
    """Return the matrix that turns weights of scaled features into weights of the features [features, features].

    Without the constant `one` features are scaled and not centred, because nothing can take up their means.

    >>> scaling(["one", "near"]).tolist()
    [[1.0, -0.5], [0.0, 5.0]]
    """
    mean, deviation = np.array([TYPICAL.get(name, (0.0, 1.0)) for name in features]).reshape(-1, 2).T
    matrix = np.diag(1 / deviation)
    if "one" in features:
        matrix[list(features).index("one")] -= mean / deviation
    return matrix


class _Cma(Search):
    def __init__(
        self, mean: NDArray[np.float64], sigma: float, candidates: int, seed: int, matrix: NDArray[np.float64]
    ) -> None:
        from cmaes import CMA

        self.matrix = matrix
        self.cma = CMA(mean=mean, sigma=sigma, population_size=candidates, seed=seed)

    def ask(self) -> NDArray[np.float64]:
        self.asked = [self.cma.ask() for _ in range(self.cma.population_size)]
        return np.stack([self._unscaled(one) for one in self.asked])

    def tell(self, candidates: NDArray[np.float64], returns: NDArray[np.float64]) -> None:
        self.cma.tell([(one, -float(value)) for one, value in zip(self.asked, returns, strict=True)])

    def result(self) -> NDArray[np.float64]:
        return self._unscaled(np.asarray(self.cma.mean, np.float64))

    def _unscaled(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of the features themselves, a row of them per decision."""
        if not len(self.matrix):
            return weights.copy()
        return (weights.reshape(-1, len(self.matrix)) @ self.matrix.T).reshape(-1)
