"""Judges the document that can most change which run is better than which (MTC)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN


class MtcState(NamedTuple):
    """The state of one topic.

    Args:
        if_relevant: float64 [cells], what a document adds to the sum of precisions of a run that holds it if it is
            relevant, given the relevant ones known so far.
        if_not: float64 [cells], the same if all other open documents turn out relevant: what its not being relevant
            takes from the highest sum that the run can have.
        sums: float64 [documents, 4], for each document over the runs: Σ and Σ of squares of either.
        cell_at: int32 [runs, depth], the cell of the document at each rank, -1 beyond the end of a run.
    """

    if_relevant: NDArray[np.float64]
    if_not: NDArray[np.float64]
    sums: NDArray[np.float64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]
    cell_at: NDArray[np.int32]


class MinimalTestCollection(Adjudicator):
    """MTC (Carterette, Allan and Sitaraman 2006, "Minimal test collections for retrieval evaluation").

    Written over the relevance x of its documents, a run's sum of precisions is Σ_i x_i/r_i + Σ_i<j x_i·x_j / max(r_i,
    r_j), and so the difference of two runs is a quadratic form. A document's weight for a pair of runs is the larger of
    two effects: what it adds to the difference if it is relevant, and what it takes from the largest possible
    difference if it is not. Here the weights of the pairs are combined as the root of their mean square, which is the
    spread of the effects over the runs; a mean of absolute values would need all pairs at each judgement. Ties go to
    the lower document id.
    """

    def __init__(self, reward: GradeReward | None = None) -> None:
        super().__init__(reward)
        self.choose, self.learn = _choose, _learn

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> MtcState:
        cell_at = np.full(pool.ranking.shape, -1, np.int32)
        cell_at[pool.holders, pool.ranks] = np.arange(len(pool.holders), dtype=np.int32)
        own = (1.0 / (pool.ranks + 1.0)).astype(np.float64)
        # The open ones: at each rank 1/max(r_i, r_j) for those above, and 1/r_j for those below.
        ranks = np.arange(1.0, pool.ranking.shape[1] + 1)
        below = np.concatenate([[0.0], np.cumsum(1.0 / ranks)])
        most = 1.0 + below[pool.lengths[pool.holders]] - below[pool.ranks + 1]
        sums = np.zeros((pool.size, 4))
        starts = pool.offsets[:-1]
        for column, values in enumerate((own, own**2, most, most**2)):
            sums[:, column] = np.add.reduceat(values, starts)
        return MtcState(
            if_relevant=own,
            if_not=most,
            sums=sums,
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
            cell_at=cell_at,
        )


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    runs, best, most = len(pool.lengths), NO_DOCUMENT, -1.0
    for document in range(len(state.taken)):
        if state.taken[document] == OPEN:
            one = state.sums[document, 1] / runs - (state.sums[document, 0] / runs) ** 2
            other = state.sums[document, 3] / runs - (state.sums[document, 2] / runs) ** 2
            worth = np.round(max(one, other), 9)  # equal values stay equal in spite of rounding
            if worth > most:
                best, most = document, worth
    if best != NO_DOCUMENT:
        state.taken[best] = 0
    return best


@kernel
def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    for cell in range(pool.offsets[document], pool.offsets[document + 1]):
        run, rank = pool.holders[cell], pool.ranks[cell]
        for place in range(pool.lengths[run]):
            other = pool.ranking[run, place]
            if state.taken[other] == OPEN:
                at = state.cell_at[run, place]
                together = 1.0 / (max(place, rank) + 1.0)
                state.sums[other, 0] += reward * together
                state.sums[other, 1] += (state.if_relevant[at] + reward * together) ** 2 - state.if_relevant[at] ** 2
                state.if_relevant[at] += reward * together
                lost = (reward - 1.0) * together
                state.sums[other, 2] += lost
                state.sums[other, 3] += (state.if_not[at] + lost) ** 2 - state.if_not[at] ** 2
                state.if_not[at] += lost
