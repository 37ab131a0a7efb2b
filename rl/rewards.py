"""What the agent is rewarded for: the ranker's measure on a sample of the validation queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ranking.errors import BadInput
from ranking.evaluation.evaluation import Evaluation
from ranking.training import RankerTraining


class ValidationSample:
    """MAP(q, η): the measure on some of the validation queries, which stay the same for every episode.

    Args:
        training: any training; its validation queries, candidates and measure are taken.
        size: how many queries, spread evenly over the validation queries; all where there are fewer.
        depth: candidates of each query that are scored, from the head of the list; None takes them all.
    """

    def __init__(self, training: RankerTraining, size: int, depth: int | None = None) -> None:
        whole = training.validation
        queries = whole.candidates.queries
        # Evenly over the queries: neighbours in a collection often ask about the same thing.
        chosen = queries[np.unique(np.linspace(0, len(queries) - 1, min(size, len(queries))).astype(int))]
        self.evaluation = Evaluation(whole.encoded, whole.candidates.take(chosen).head(depth), whole.measures)

    def __call__(self, training: RankerTraining) -> float:
        """The mean of the sample mean, 0 where the training has diverged."""
        if training.diverged:
            return 0.0
        try:
            return _mean(self.evaluation(training.ranker))
        except FloatingPointError:
            return 0.0

    @property
    def ceiling(self) -> float:
        """m_max: the mean of the ideal order of the same candidates (1 only if they hold all that is relevant)."""
        return _mean(self.evaluation.of_ideal())


def _mean(values: dict[str, np.ndarray]) -> float:
    return float(next(iter(values.values())).mean())


@dataclass(frozen=True)
class ValidationSampleOptions:
    """The sample of `pyrite learn` (`validation_sample` of the configuration).

    Args:
        size: validation queries.
        every: batches between two measurements. A decision that ends without one is rewarded with what the
            sample showed last: 0 of a difference, which the next measurement makes up for.
        depth: candidates of each query that are scored; None takes all.

    Raises:
        BadInput: where one of them is below 1.
    """

    size: int = 50
    every: int = 8
    depth: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < 1:
                raise BadInput(f"{name} is {value}", f"validation_sample.{name}", "choose a whole number from 1 up")


class Reward(ABC):
    """What a decision is worth, from the measure before and after it (section 3.1.3).

    Args:
        scale: every reward is multiplied by it; a difference of MAP is small where networks expect ones.

    Raises:
        BadInput: where the scale is not above 0.
    """

    def __init__(self, scale: float = 1.0) -> None:
        if not scale > 0:
            raise BadInput(f"scale is {scale}", "reward.scale", "choose a number above 0")
        self.scale = scale

    @abstractmethod
    def of(self, before: float, after: float, ceiling: float, gamma: float) -> float:
        """The reward before scaling.

        Args:
            before, after: the sample's measure before and after the decision.
            ceiling: m_max.
            gamma: γ, the agent's discount.
        """

    def __call__(self, before: float, after: float, ceiling: float, gamma: float) -> float:
        return self.scale * self.of(before, after, ceiling, gamma)


class Raw(Reward):
    """R_raw = MAP(q, η): the more, and the longer, the better."""

    def of(self, before: float, after: float, ceiling: float, gamma: float) -> float:
        return after


class Ceil(Reward):
    """R_ceil = MAP(q, η) − m_max, never above 0: the sooner it is over, the better."""

    def of(self, before: float, after: float, ceiling: float, gamma: float) -> float:
        return after - ceiling


class Diff(Reward):
    """R_diff = MAP(q, η_{t+1}) − MAP(q, η_t): an episode's add up to what the ranker gained (equation 7)."""

    def of(self, before: float, after: float, ceiling: float, gamma: float) -> float:
        return after - before


class Potential(Reward):
    """γ·MAP(q, η_{t+1}) − MAP(q, η_t): with it the sum telescopes for any γ, to γ^T·MAP(q, η_T) − MAP(q, η_0)."""

    def of(self, before: float, after: float, ceiling: float, gamma: float) -> float:
        return gamma * after - before
