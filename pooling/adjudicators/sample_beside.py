"""Spends a share of each budget on a random sample of the pool, and the rest on an order that looks for relevant
documents.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.compiled import around
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.adjudicators.sampled import Sample, Sampled, given_in, judged_in, stratified
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN
from pyrite.ranking.bounds import Between, checked

HANDED_OUT, SAMPLED, PLACE = 0, 1, 2


class BesideOptions(NamedTuple):
    """The options of `SampleBeside`, for compiled functions."""

    share: float
    inner: Any


class BesideState(NamedTuple):
    """The state of one topic.

    Args:
        inner: state of the order.
        lined_up: int32 [documents], all in a random order: the sample is a prefix of it.
        chosen: bool [documents], whether the order, too, has chosen the document.
        counts: int64 [3], documents handed out, those of them that the sample requested, and the position of the sample
            in `lined_up`.
    """

    inner: Any
    lined_up: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    counts: NDArray[np.int64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class SampleBeside(Sampled):
    """At regular intervals judge the next document of a random order of the pool, otherwise the choice of another
    order.

    The documents that the order has chosen are a stratum that is judged completely; of the rest the sample is a uniform
    one, which shows what the order has not found yet. For that, the order learns the grade of a sampled document only
    when it chooses that document itself, and then at no cost.

    Args:
        adjudicator: the order.
        share: share of the judgements that go to the sample, above 0 and below 1.
        reward: how a grade becomes a reward; None is the order's.
    """

    @checked
    def __init__(
        self,
        adjudicator: Adjudicator = PosteriorFusion(),  # noqa: B008
        share: Annotated[float, Between(0, 1, exclude="both")] = 0.2,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(reward or adjudicator.reward)
        self.adjudicator, self.share = adjudicator, share
        self.needs = adjudicator.needs
        self.choose, self.take, self.learn = around("SampleBeside", adjudicator, _choose, _take, _learn)

    def options(self) -> BesideOptions:
        return BesideOptions(float(self.share), self.adjudicator.options())

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> BesideState:
        return BesideState(
            lined_up=rng.permutation(pool.size).astype(np.int32),
            inner=self.adjudicator.start(pool, rng, runs),
            chosen=np.zeros(pool.size, bool),
            counts=np.zeros(3, np.int64),
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
        )

    def sample(self, pool: TopicPool, state: BesideState) -> Sample:
        rest = ~state.chosen & ~given_in(state)
        return stratified(judged_in(state), rest, np.zeros(pool.size, np.int32), rest.sum(keepdims=True))


def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    turn = state.counts[HANDED_OUT]
    if np.floor((turn + 1) * options.share) > np.floor(turn * options.share):
        while state.counts[PLACE] < len(state.taken):
            document = state.lined_up[state.counts[PLACE]]
            state.counts[PLACE] += 1
            if state.taken[document] == OPEN:
                state.taken[document] = 0
                state.counts[HANDED_OUT] += 1
                state.counts[SAMPLED] += 1
                return document
        return NO_DOCUMENT
    while True:
        document = inner_choose(pool, state.inner, options.inner, rng)  # type: ignore[name-defined]  # noqa: F821
        if document == NO_DOCUMENT:
            return NO_DOCUMENT
        state.chosen[document] = True
        if state.taken[document] == OPEN:
            state.taken[document] = 0
            state.counts[HANDED_OUT] += 1
            return document
        known = state.rewards[document]
        if not np.isnan(known):
            inner_learn(pool, state.inner, options.inner, document, known)  # type: ignore[name-defined]  # noqa: F821


def _take(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    state.taken[document] = supplier
    state.chosen[document] = True
    inner_take(pool, state.inner, options.inner, document, supplier)  # type: ignore[name-defined]  # noqa: F821


def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    if state.chosen[document]:
        inner_learn(pool, state.inner, options.inner, document, reward)  # type: ignore[name-defined]  # noqa: F821
