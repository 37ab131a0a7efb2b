"""Defines priors of the runs: a Beta distribution of the probability that a run supplies a relevant document."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.pool import TopicPool
from pyrite.pooling.runs import fields_of
from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.part import Part

_RENAMED = {"Same": "CommonPrior", "Agreement": "AgreementPrior", "Table": "PriorFile"}

Parameters = tuple[NDArray[np.float64], NDArray[np.float64]]
"""α and β, float64 [runs] each."""


class Prior(Part):
    """α and β of each run's Beta distribution."""

    @abstractmethod
    def __call__(self, pool: TopicPool, runs: list[str]) -> Parameters:
        """Return α and β of the runs over a topic, both above 0."""


class CommonPrior(Prior):
    """One prior for all runs. Beta(1, 1), the uniform distribution, is Losada et al.'s (2016, section 2.1.4).

    Args:
        alpha, beta: parameters of the distribution, above 0.
    """

    @checked
    def __init__(self, alpha: Annotated[float, Positive] = 1.0, beta: Annotated[float, Positive] = 1.0) -> None:
        self.alpha, self.beta = alpha, beta

    def __call__(self, pool: TopicPool, runs: list[str]) -> Parameters:
        return np.full(len(runs), self.alpha), np.full(len(runs), self.beta)


class AgreementPrior(Prior):
    """A prior by agreement: a run's mean is the average share of the other runs that hold its documents.

    An answer to the paper's section 6, which asks for priors from what is known before judging.

    Args:
        strength: α + β, the number of judgements that the prior is worth.
        depth: documents of each run that are compared.
    """

    @checked
    def __init__(self, strength: Annotated[float, Positive] = 2.0, depth: Annotated[int, Positive] = 20) -> None:
        self.strength, self.depth = strength, depth

    def __call__(self, pool: TopicPool, runs: list[str]) -> Parameters:
        others = (np.diff(pool.offsets) - 1) / max(len(runs) - 1, 1)
        ranking = pool.ranking[:, : self.depth]
        # The row behind the last document is that of `NO_DOCUMENT`, -1: a pool may have no documents at all.
        held = np.append(others, 0.0)[ranking].sum(1) / np.maximum((ranking >= 0).sum(1), 1)
        mean = (held * self.depth + 0.5) / (self.depth + 1)  # never 0 or 1: both parameters must be above 0
        return self.strength * mean, self.strength * (1 - mean)


class PriorFile(Prior):
    """A prior for each run, from a file.

    Args:
        path: lines of three columns, run, α and β, separated by blanks, tabs or commas.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.parameters: dict[str, tuple[float, float]] = {}
        for where, (run, *numbers) in fields_of(path):
            try:
                alpha, beta = map(float, numbers)
                if not (0 < alpha < np.inf and 0 < beta < np.inf):
                    raise ValueError
            except ValueError:
                what = f"{' '.join([run, *numbers])[:60]!r} is no prior"
                raise BadInput(what, where, "give run, α and β, both above 0") from None
            refuse(
                self.parameters.setdefault(run, (alpha, beta)) != (alpha, beta),
                f"the run {run!r} is given two priors",
                where,
                "give each run one line",
            )

    def __call__(self, pool: TopicPool, runs: list[str]) -> Parameters:
        missing = next((run for run in runs if run not in self.parameters), None)
        if missing is not None:
            raise BadInput(f"no prior for the run {missing!r}", self.path, "give each run a line")
        alpha, beta = np.array([self.parameters[run] for run in runs]).T
        return alpha.copy(), beta.copy()


def __getattr__(name: str) -> None:
    """Refuse the names that configurations of an earlier release have, and name the new ones."""
    if name in _RENAMED:
        now = _RENAMED[name]
        raise BadInput(f"{name} is called {now} now", f"{__name__}.{name}", f"write {__name__}.{now}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
