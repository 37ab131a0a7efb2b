"""Rewards an agent for what its decisions do to the ranker's measure on a sample of the validation queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from ranking.evaluation.evaluation import Evaluation
from ranking.rankers.ranker import Ranker
from ranking.training import RankerTraining, UpdateResult

Values = NDArray[np.float64]
"""The measure of each query of the sample, float64 [queries]."""


class ValidationSample:
    """Some of the validation queries, which stay the same for every episode: MAP(q, η) is the mean over them.

    Args:
        training: any training; its validation queries, candidates and measure are taken.
        size: how many queries, spread evenly over the validation queries; all where there are fewer.
        depth: candidates of each query that are scored, from the head of the list; None takes them all.

    Attributes:
        first_stage: Values of the first stage's own order of the candidates.
        ideal: Values of the best order of the candidates (1 only where they hold all that is relevant).
    """

    def __init__(self, training: RankerTraining, size: int, depth: int | None = None) -> None:
        whole = training.validation
        queries = whole.candidates.queries
        # Evenly over the queries: neighbours in a collection often ask about the same thing.
        chosen = queries[np.unique(np.linspace(0, len(queries) - 1, min(size, len(queries))).astype(int))]
        self.evaluation = Evaluation(whole.encoded, whole.candidates.take(chosen).head(depth), whole.measures)
        self.first_stage = _first(self.evaluation.of_bm25())
        self.ideal = _first(self.evaluation.of_ideal())

    def __call__(self, ranker: Ranker) -> Values:
        """The ranker's values now; 0 for every query where it scores a document nan."""
        try:
            return _first(self.evaluation(ranker))
        except FloatingPointError:
            return np.zeros(len(self.ideal))


def _first(values: dict[str, Values]) -> Values:
    return next(iter(values.values()))


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


@dataclass(frozen=True)
class Outcome:
    """What a decision led to: all that a reward may be worked out from.

    Args:
        before, after: Values of the sample before and after the decision. They are the same object where the sample
            was not measured in between. At the end of an episode `after` is of the weights that are kept: the best.
        first_stage: Values of the first stage's (BM25's) own order.
        ideal: Values of the best order of the candidates.
        updates: results of the decision's updates of the ranker: loss, gradient's norm, and scores of positives and
            negatives.
        gamma: γ, the agent's discount.
        done: whether the episode has ended.
    """

    before: Values
    after: Values
    first_stage: Values
    ideal: Values
    updates: Sequence[UpdateResult]
    gamma: float
    done: bool


class Reward(ABC):
    """What a decision is worth (Cohen et al. 2019, section 3.1.3).

    Args:
        scale: every reward is multiplied by it; a difference of MAP is small where networks expect ones.

    Raises:
        BadInput: where the scale is not above 0.
    """

    gamma: ClassVar[float] = 0.995
    """The discount that it is meant to be learned with (section 3.1.4), where the user gives none."""

    def __init__(self, scale: float = 1.0) -> None:
        if not scale > 0:
            raise BadInput(f"scale is {scale}", "reward.scale", "choose a number above 0")
        self.scale = scale

    @abstractmethod
    def of(self, outcome: Outcome) -> float:
        """The reward before scaling."""

    def __call__(self, outcome: Outcome) -> float:
        return self.scale * self.of(outcome)


class Raw(Reward):
    """R_raw = MAP(q, η): the more, and the longer, the better."""

    def of(self, outcome: Outcome) -> float:
        return float(outcome.after.mean())


class Ceil(Reward):
    """R_ceil = MAP(q, η) − m_max, never above 0: the sooner it is over, the better. m_max is the ideal order's."""

    def of(self, outcome: Outcome) -> float:
        return float(outcome.after.mean()) - float(outcome.ideal.mean())


class Diff(Reward):
    """R_diff = MAP(q, η_{t+1}) − MAP(q, η_t): an episode's add up to what the ranker gained (equation 7).

    They do so for γ = 1 alone, which section 3.1.3 sets. Below 1 a gain is worth less the later it comes: where one
    function gains a little at once and another more in the end, the agent is paid for the wrong one.
    """

    gamma = 1.0

    def of(self, outcome: Outcome) -> float:
        return float(outcome.after.mean()) - float(outcome.before.mean())


class Potential(Reward):
    """γ·MAP(q, η_{t+1}) − MAP(q, η_t): with it the sum telescopes for any γ, to γ^T·MAP(q, η_T) − MAP(q, η_0)."""

    def of(self, outcome: Outcome) -> float:
        return outcome.gamma * float(outcome.after.mean()) - float(outcome.before.mean())
