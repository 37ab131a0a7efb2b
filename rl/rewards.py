"""Rewards an agent for the effect of its decisions on the ranker's measure over a sample of validation queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.part import Part
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.training import RankerTraining, UpdateResult

Values = NDArray[np.float64]
"""The measure of each query of the sample, float64 [queries]."""


class ValidationSample:
    """Some of the validation queries, the same for every episode: MAP(q, η) is the mean over them.

    Attributes:
        first_stage: the values of the first stage's order of the candidates.
        ideal: the values of the best order of the candidates (1 only if they contain all relevant documents).
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
        """Return the ranker's current values; 0 for every query if it scores a document nan."""
        try:
            return _first(self.evaluation(ranker))
        except FloatingPointError:
            return np.zeros(len(self.ideal))


def _first(values: dict[str, Values]) -> Values:
    return next(iter(values.values()))


@checked
@dataclass(frozen=True)
class ValidationSampleOptions:
    """Options of the sample in `pyrite learn` (`validation_sample` of the configuration).

    Args:
        size: number of validation queries.
        every: number of batches between two measurements. A decision that ends without one is rewarded with the last
            measured values: 0 for a difference, which the next measurement makes up for.
        depth: number of candidates per query that are scored; None for all.
    """

    size: Annotated[int, Positive] = 50
    every: Annotated[int, Positive] = 8
    depth: Annotated[int, Positive] | None = None


@dataclass(frozen=True)
class DecisionOutcome:
    """The result of a decision: all that a reward can depend on.

    Args:
        before, after: values of the sample before and after the decision. They are the same object if the sample was
            not measured in between. At the end of an episode `after` belongs to the weights that are kept, the best.
        first_stage: values of the first stage's (BM25's) order.
        ideal: values of the best order of the candidates.
        updates: results of the decision's updates: loss, gradient norm, and scores of positives and negatives.
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


class Reward(Part):
    """The value of a decision (Cohen et al. 2019, section 3.1.3).

    Args:
        scale: factor of every reward, 1 in the paper. A difference of MAP is small and networks expect values near 1,
            so differences are multiplied by 100 by default.
    """

    gamma: ClassVar[float] = 0.995
    """The default discount (section 3.1.4)."""

    @checked
    def __init__(self, scale: Annotated[float, Positive] = 1.0) -> None:
        self.scale = scale

    @abstractmethod
    def of(self, outcome: DecisionOutcome) -> float:
        """Return the reward before scaling."""

    def __call__(self, outcome: DecisionOutcome) -> float:
        """Return the reward, scaled.

        Raises:
            BadInput: if `of` of the user's class returns anything but a finite number.
        """
        value: Any = self.of(outcome)
        try:
            number = float(value)
        except (TypeError, ValueError):  # None, or an array
            number = np.nan
        refuse(
            not np.isfinite(number),
            f"{type(self).__name__}.of returned {value!r}",
            "reward",
            "return one finite number",
        )
        return self.scale * number


class Raw(Reward):
    """R_raw = MAP(q, η): higher for good and for long trainings."""

    def of(self, outcome: DecisionOutcome) -> float:
        return float(outcome.after.mean())


class Ceil(Reward):
    """R_ceil = MAP(q, η) − m_max, never above 0: higher for short trainings. m_max is the value of the ideal order."""

    def of(self, outcome: DecisionOutcome) -> float:
        return float(outcome.after.mean()) - float(outcome.ideal.mean())


class Diff(Reward, scale=100):
    """R_diff = MAP(q, η_{t+1}) − MAP(q, η_t): the rewards of an episode add up to the ranker's gain (equation 7).

    They do so only for γ = 1, which section 3.1.3 sets. Below 1 a gain is worth less the later it comes: if one
    function gains a little at once and another more in the end, the agent is rewarded for the wrong one.
    """

    gamma = 1.0

    def of(self, outcome: DecisionOutcome) -> float:
        return float(outcome.after.mean()) - float(outcome.before.mean())


class Potential(Reward, scale=100):
    """γ·MAP(q, η_{t+1}) − MAP(q, η_t): the sum telescopes for any γ, to γ^T·MAP(q, η_T) − MAP(q, η_0)."""

    def of(self, outcome: DecisionOutcome) -> float:
        return outcome.gamma * float(outcome.after.mean()) - float(outcome.before.mean())
