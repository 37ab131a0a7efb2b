"""Orders documents before any judging: no judgement changes the order."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN
from pyrite.ranking.bounds import checked


class StaticState(NamedTuple):
    """The state of one topic.

    Args:
        order: int32 [documents].
        place: int64 [1], the number of them that were passed.
    """

    order: NDArray[np.int32]
    place: NDArray[np.int64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class StaticOrder(Adjudicator):
    """An order that is known before the first judgement."""

    @checked
    def __init__(self) -> None:
        super().__init__()
        self.choose = _choose

    @abstractmethod
    def order(self, pool: TopicPool) -> NDArray[Any]:
        """Return all documents of a pool, int [documents], the first to be judged first."""

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> StaticState:
        size = pool.size
        order = self.order(pool).astype(np.int32)
        return StaticState(
            order=order,
            place=np.zeros(1, np.int64),
            taken=np.full(size, OPEN, np.int32),
            rewards=np.full(size, np.nan),
        )


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    while state.place[0] < len(state.order):
        document = state.order[state.place[0]]
        state.place[0] += 1
        if state.taken[document] == OPEN:
            state.taken[document] = 0
            return document
    return NO_DOCUMENT


class DocID(StaticOrder):
    """Documents in the order of their ids, as TREC's assessors see them (Losada et al. 2016, section 3.1)."""

    def order(self, pool: TopicPool) -> NDArray[Any]:
        return np.arange(pool.size)


class Rank(StaticOrder):
    """All first documents, then all second ones, …; within a rank in the order of the runs (section 3.1)."""

    def order(self, pool: TopicPool) -> NDArray[Any]:
        first = np.minimum.reduceat(pool.ranks * len(pool.lengths) + pool.holders, pool.offsets[:-1])
        return np.argsort(first)
