"""Judges the top of every run first, and then follows another order, so that all runs are treated fairly."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.compiled import around
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import OPEN
from pyrite.ranking.bounds import NonNegative, checked


class ShallowState(NamedTuple):
    """The state of one topic.

    Args:
        inner: state of the order that follows.
        first: int32 [documents of the runs' tops], in the order of judging.
        place: int64 [1], the number of them that were passed.
        taken, rewards: see `pyrite.pooling.adjudicators.adjudicator.Adjudicator`; they are the inner state's.
    """

    inner: Any
    first: NDArray[np.int32]
    place: NDArray[np.int64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class ShallowFirst(Adjudicator):
    """The depth-k pool of all runs, rank by rank, and then the choices of another order, which has learned all of these
    grades.

    A bandit that starts immediately may leave some runs with hardly any judgement, and a collection built that way
    measures them badly (Voorhees 2018, "On building fair and reusable test collections using bandit techniques").

    Args:
        adjudicator: the order that follows.
        depth: documents of each run that are judged first.
        reward: how a grade becomes a reward; None is the order's.
    """

    @checked
    def __init__(
        self,
        adjudicator: Adjudicator = PosteriorFusion(),  # noqa: B008
        depth: Annotated[int, NonNegative] = 10,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(reward or adjudicator.reward)
        self.adjudicator, self.depth = adjudicator, depth
        self.needs = adjudicator.needs
        self.choose, self.take, self.learn = around("ShallowFirst", adjudicator, _choose, _take, _learn)

    def options(self) -> Any:
        return self.adjudicator.options()

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> ShallowState:
        inner = self.adjudicator.start(pool, rng, runs)
        place = np.zeros(1, np.int64)
        return ShallowState(inner, _by_rank(pool, self.depth), place, inner.taken, inner.rewards)


def _by_rank(pool: TopicPool, depth: int) -> NDArray[np.int32]:
    """Return the documents of the runs' tops: all first ones, then all second ones."""
    by_rank = pool.ranking[:, :depth].T.ravel()
    documents, first = np.unique(by_rank[by_rank >= 0], return_index=True)
    return documents[np.argsort(first)].astype(np.int32)


def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    while state.place[0] < len(state.first):
        document = np.int64(state.first[state.place[0]])
        state.place[0] += 1
        if state.taken[document] == OPEN:
            # As if its first holder had supplied it.
            supplier = np.int64(pool.holders[pool.offsets[document]])
            inner_take(pool, state.inner, options, document, supplier)  # type: ignore[name-defined]  # noqa: F821
            return document
    return inner_choose(pool, state.inner, options, rng)  # type: ignore[name-defined]  # noqa: F821


def _take(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    inner_take(pool, state.inner, options, document, supplier)  # type: ignore[name-defined]  # noqa: F821


def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    inner_learn(pool, state.inner, options, document, reward)  # type: ignore[name-defined]  # noqa: F821
