"""Defines orders of judging that are samples: they know the probability with which each document was judged."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.sentinels import OUTSIDE

CERTAIN = -1
"""Instead of a stratum: the document was judged whatever the draws were."""


class Sample(NamedTuple):
    """The judged documents of a topic, as a sample of its pool.

    Args:
        weights: float64 [documents], the number of documents of the pool that a judged one represents, in expectation
            over all samples: 1/π if it is drawn with the probability π; 0 for those not judged.
        strata: int32 [documents], the stratum that a judged document was drawn from; `CERTAIN` if its weight is 1 by
            design, and for those not judged.
        drawn: int32 [draws], the documents in the order of drawing if each draw depended on the results of the former
            ones, otherwise empty.
        chances: float64 [draws], the probability of each draw.
    """

    weights: NDArray[np.float64]
    strata: NDArray[np.int32]
    drawn: NDArray[np.int32] = np.zeros(0, np.int32)
    chances: NDArray[np.float64] = np.zeros(0)


class Sampled(Adjudicator):
    """An order whose judgements, however few, give unbiased estimates (`pyrite.pooling.estimates`)."""

    @abstractmethod
    def sample(self, pool: TopicPool, state: Any) -> Sample:
        """Return the sample that is judged in a state of this order. Documents that were judged without having been
        handed out count as certain.
        """


def stratified(
    judged: NDArray[np.bool_], rest: NDArray[np.bool_], strata: NDArray[np.int32], sizes: NDArray[np.integer]
) -> Sample:
    """Return the sample in which a judged document represents its share of its stratum.

    Args:
        judged: bool [documents].
        rest: bool [documents], those that strata consist of; all others that are judged are certain.
        strata: int32 [documents], the stratum of each; any value for those that are not in `rest` and judged.
        sizes: int [strata], documents of each.
    """
    drawn = judged & rest
    weights = judged.astype(np.float64)
    weights[drawn] = (sizes / np.maximum(np.bincount(strata[drawn], minlength=len(sizes)), 1))[strata[drawn]]
    return Sample(weights, np.where(drawn & (weights > 1), strata, CERTAIN).astype(np.int32))


def judged_in(state: Any) -> NDArray[np.bool_]:
    """Return which documents of a state are judged: bool [documents]."""
    return ~np.isnan(state.rewards)


def given_in(state: Any) -> NDArray[np.bool_]:
    """Return which documents of a state were judged without having been handed out: bool [documents]."""
    return judged_in(state) & (state.taken == OUTSIDE)
