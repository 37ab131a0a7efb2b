"""Samples the pool by strata of rank, the upper ones more densely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.adjudicators.sampled import Sample, Sampled, given_in, judged_in, stratified
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN
from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import refuse


class StratifiedState(NamedTuple):
    """The state of one topic.

    Args:
        strata: int32 [documents], the stratum of each document.
        order: int32 [documents], the documents in a random order within each stratum, one stratum after another.
        ends: int64 [strata], the end of each stratum in `order`.
        place: int64 [strata], the position of the next document of each.
        rates: float64 [strata], the sampling rates relative to each other.
        counts: int64 [strata, 2], documents of each that were not given, and the number of these that are handed out.
    """

    strata: NDArray[np.int32]
    order: NDArray[np.int32]
    ends: NDArray[np.int64]
    place: NDArray[np.int64]
    rates: NDArray[np.float64]
    counts: NDArray[np.int64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class StratifiedSampling(Sampled):
    """Put documents with similar best ranks into a stratum, and sample each stratum uniformly without replacement at a
    rate per stratum: the design of xinfAP (Yilmaz, Kanoulas and Aslam 2008, "A simple and efficient sampling method
    for estimating AP and NDCG").

    The next judgement goes to the stratum that is furthest behind its rate (Sainte-Laguë's method of apportioning
    seats), so the design holds after every judgement, whatever the budget.

    Args:
        bounds: the last rank of each stratum but the lowest, which has all others.
        rates: sampling rate of each stratum, one more than bounds: 8 against 1 judges a document eight times as often,
            until the stratum is judged completely.
    """

    @checked
    def __init__(
        self,
        bounds: Sequence[Annotated[int, Positive]] = (5, 15, 40),
        rates: Sequence[Annotated[float, Positive]] = (8.0, 4.0, 2.0, 1.0),
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(reward)
        refuse(sorted(set(bounds)) != list(bounds), f"bounds are {list(bounds)}", remedy="give ranks that rise")
        refuse(len(rates) != len(bounds) + 1, f"rates are {list(rates)}", remedy=f"give {len(bounds) + 1} numbers")
        self.bounds, self.rates = list(bounds), list(map(float, rates))
        self.choose, self.take = _choose, _take

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> StratifiedState:
        best = np.minimum.reduceat(pool.ranks, pool.offsets[:-1])
        strata = np.searchsorted(self.bounds, best + 1, side="left").astype(np.int32)
        shuffled = rng.permutation(pool.size)
        order = shuffled[np.argsort(strata[shuffled], kind="stable")].astype(np.int32)
        sizes = np.bincount(strata, minlength=len(self.rates)).astype(np.int64)
        return StratifiedState(
            strata=strata,
            order=order,
            ends=np.cumsum(sizes),
            place=np.cumsum(sizes) - sizes,
            rates=np.array(self.rates),
            counts=np.stack([sizes, np.zeros_like(sizes)], axis=1),
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
        )

    def sample(self, pool: TopicPool, state: StratifiedState) -> Sample:
        return stratified(judged_in(state), ~given_in(state), state.strata, state.counts[:, 0])


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    furthest, due = NO_DOCUMENT, 0.0
    for stratum in range(len(state.rates)):
        while state.place[stratum] < state.ends[stratum] and state.taken[state.order[state.place[stratum]]] != OPEN:
            state.place[stratum] += 1
        if state.place[stratum] < state.ends[stratum]:
            size, out = state.counts[stratum, 0], state.counts[stratum, 1]
            behind = state.rates[stratum] * size / (2.0 * out + 1.0)
            if furthest == NO_DOCUMENT or behind > due:
                furthest, due = stratum, behind
    if furthest == NO_DOCUMENT:
        return NO_DOCUMENT
    document = state.order[state.place[furthest]]
    state.place[furthest] += 1
    state.counts[furthest, 1] += 1
    state.taken[document] = 0
    return document


@kernel
def _take(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    """Remove a given document from its stratum: its judgement is no evidence about the others."""
    state.taken[document] = supplier
    state.counts[state.strata[document], 0] -= 1
