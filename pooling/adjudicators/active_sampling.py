"""Samples documents with replacement, more from the runs that prove good. Estimates stay unbiased while it learns."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
import scipy  # its `optimize` is imported when it is first used
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.adjudicators.sampled import CERTAIN, Sample, Sampled, given_in, judged_in
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN
from pyrite.ranking.bounds import Between, Positive, checked

SURE = 1.0 - 1e-12
"""The highest probability of a draw: its logarithm must be finite."""


class ActiveOptions(NamedTuple):
    """The options of `ActiveSampling`, for compiled functions."""

    doubt: float
    uniform: float


class ActiveState(NamedTuple):
    """The state of one topic.

    Args:
        rank_weights: float64 [depth], ln((depth + 1) / rank).
        mass: float64 [runs], the sum of the rank weights of the run's documents.
        merit: float64 [runs], the evidence that judgements give for each run.
        chance: float64 [documents], the probability of each in one draw.
        missed: float64 [documents], logarithm of the probability that no draw so far took it.
        drawn: int32 [documents], in the order of drawing.
        out: int64 [1], the number of documents drawn.
        chance_of: float64 [documents], the probability of the draw that took it from the documents left.
    """

    rank_weights: NDArray[np.float64]
    mass: NDArray[np.float64]
    merit: NDArray[np.float64]
    chance: NDArray[np.float64]
    missed: NDArray[np.float64]
    drawn: NDArray[np.int32]
    out: NDArray[np.int64]
    chance_of: NDArray[np.float64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class ActiveSampling(Sampled):
    """Draw a run, then one of its documents. Runs are drawn by how many of their documents proved relevant (Li and
    Kanoulas 2017, "Active sampling for large-scale information retrieval evaluation").

    A run's document at a rank is drawn with a probability proportional to ln((depth + 1) / rank), the prior that
    corresponds to average precision. A run is drawn in proportion to `doubt` + the Horvitz–Thompson estimate of the
    share of that distribution on relevant documents. Different from the paper, a share of all draws is uniform over the
    pool, so that no judgement gets too much weight.

    The authors draw with replacement (a document drawn again costs nothing) and estimate by the probability with which
    any of the draws took a document (`horvitz_thompson`; as judging stops at a number of judgements, not of draws, the
    probabilities are scaled to sum to it). But a document that proves relevant makes the documents of its runs more
    likely, itself included, and that biases the estimate downwards. So the default weighs a document by the probability
    of the draw that took it from the documents left, whatever came before (`lure`: Farquhar, Gal and Rainforth 2021,
    "On statistical bias in active learning", equation 6): unbiased after each judgement.

    Args:
        doubt: each run's merit before the first judgement, above 0. The higher, the more slowly it learns which runs
            are good.
        uniform: share of the draws that are uniform over the pool, from 0 to below 1.
        estimator: how judged documents are weighted in estimates: `lure`, by the probability of their draw, or
            `horvitz_thompson`, as the authors do.
    """

    @checked
    def __init__(
        self,
        doubt: Annotated[float, Positive] = 0.1,
        uniform: Annotated[float, Between(0, 1, exclude="high")] = 0.1,
        estimator: Literal["lure", "horvitz_thompson"] = "lure",
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(reward)
        self.doubt, self.uniform, self.estimator = doubt, uniform, estimator
        self.choose = _choose

    def options(self) -> ActiveOptions:
        return ActiveOptions(float(self.doubt), float(self.uniform))

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> ActiveState:
        depth = pool.ranking.shape[1]
        weights = np.log((depth + 1) / np.arange(1.0, depth + 1))
        summed = np.concatenate([[0.0], np.cumsum(weights)])
        return ActiveState(
            rank_weights=weights,
            mass=summed[pool.lengths],
            merit=np.zeros(len(runs)),
            chance=np.zeros(pool.size),
            missed=np.zeros(pool.size),
            drawn=np.zeros(pool.size, np.int32),
            out=np.zeros(1, np.int64),
            chance_of=np.ones(pool.size),
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
        )

    def sample(self, pool: TopicPool, state: ActiveState) -> Sample:
        given = given_in(state)
        order = state.drawn[: state.out[0]]
        judged = judged_in(state)[order]
        # As a sequence, only the draws before the first that is not back yet are known.
        known = np.cumprod(judged).astype(bool) if self.estimator == "lure" else judged
        order = order[known]
        weights = np.where(given, 1.0, 0.0)
        strata = np.full(pool.size, CERTAIN, np.int32)
        count, size = len(order), pool.size - int(given.sum())
        if not 0 < count < size:
            weights[order] = 1.0
            return Sample(weights, strata)
        strata[order] = 0
        if self.estimator == "horvitz_thompson":
            rates = -state.missed
            weights[order] = 1.0 / -np.expm1(-_as_many(rates[~given], count) * rates[order])
            return Sample(weights, strata)
        left, chances = size - np.arange(1.0, count + 1), state.chance_of[order]
        # Equation 6 times documents times draws: the weights of a sum.
        weights[order] = size / count * (1 + (size - count) / left * (1 / ((left + 1) * chances) - 1))
        return Sample(weights, strata, order.copy(), chances)


def _as_many(rates: NDArray[np.float64], count: int) -> float:
    """Return the factor on the number of draws with which the expected number of documents is `count`."""

    def too_many(logarithm: float) -> float:
        return float(-np.expm1(-np.exp(logarithm) * rates).sum()) - count

    return float(np.exp(scipy.optimize.brentq(too_many, -40.0, 40.0, xtol=1e-10)))


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    size, left = len(state.taken), 0.0
    _weigh(pool, state, options)
    opened = 0
    for document in range(size):
        if state.taken[document] == OPEN:
            left += state.chance[document]
            opened += 1
    if not opened:
        return NO_DOCUMENT
    draws = 1.0
    if left < SURE:  # draws until one takes a document that is not taken yet
        draws += np.floor(np.log(1.0 - rng.random()) / np.log1p(-left))
    for document in range(size):
        state.missed[document] += draws * np.log1p(-state.chance[document])
    point, last = rng.random() * left, NO_DOCUMENT
    for document in range(size):
        if state.taken[document] == OPEN:
            last = document
            point -= state.chance[document]
            if point < 0:
                break
    state.drawn[state.out[0]], state.chance_of[last] = last, state.chance[last] / left
    state.out[0] += 1
    state.taken[last] = 0
    return last


@kernel
def _weigh(pool, state, options):  # type: ignore[no-untyped-def]
    """Compute the merit of the runs from what is judged, and from it the chance of each document."""
    size = len(state.taken)
    for run in range(len(state.merit)):
        state.merit[run] = options.doubt
    for document in range(size):
        reward = state.rewards[document]
        if reward > 0 or reward < 0:  # neither 0 nor NaN
            worth = reward
            if state.missed[document] < 0:  # otherwise it was given, not drawn
                worth = reward / -np.expm1(state.missed[document])
            for cell in range(pool.offsets[document], pool.offsets[document + 1]):
                run = pool.holders[cell]
                state.merit[run] += worth * state.rank_weights[pool.ranks[cell]] / state.mass[run]
    total = 0.0
    for run in range(len(state.merit)):
        if state.mass[run] > 0:
            total += state.merit[run]
    for document in range(size):
        at_ranks = 0.0
        for cell in range(pool.offsets[document], pool.offsets[document + 1]):
            run = pool.holders[cell]
            at_ranks += state.merit[run] * state.rank_weights[pool.ranks[cell]] / state.mass[run]
        chance = (1.0 - options.uniform) * at_ranks / total + options.uniform / size
        state.chance[document] = min(chance, SURE)
