"""Judges the documents that are most likely relevant by a machine's grades and the runs, and learns how far to trust
the machine.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.compiled import kernel
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, NO_GRADE, OPEN
from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.errors import refuse


class MachineOptions(NamedTuple):
    """The options of `MachinePrior`, for compiled functions."""

    doubt: float


class MachineState(NamedTuple):
    """The state of one topic.

    Args:
        level: int32 [documents], the position of each one's machine grade among the distinct grades.
        counts: float64 [levels, 2], documents of each level that people judged, and the sum of their rewards.
        prior: float64 [levels], the expected share of relevant ones of each level before any was judged.
        by_runs: float64 [documents], log-odds that the runs' ranks give to each.
    """

    level: NDArray[np.int32]
    counts: NDArray[np.float64]
    prior: NDArray[np.float64]
    by_runs: NDArray[np.float64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class MachinePrior(Adjudicator):
    """Use a machine's grade as a prior: ln odds = ln odds of its grade + `runs` · ln(fused / mean fused).

    The odds of a grade are those of the topic's documents with that grade that people judged, as if `doubt` more had
    been, of which more were relevant the higher the grade (from one to nine in ten). So a machine that is wrong soon
    loses its weight. "Fused" is the reciprocal rank fusion of the runs, with the constant 60. (Machine grades as
    UMBRELA's: Upadhyay et al. 2024, "UMBRELA: UMbrela is the (open-source reproduction of the) Bing RELevance
    Assessor"; that they are no judgements: Faggioli et al. 2023, "Perspectives on large language models for relevance
    judgment".) It needs the machine's grades (`machine=FILE`).

    Args:
        doubt: number of judgements of each grade that the prior is worth, above 0.
        runs: weight of the runs' ranks relative to the machine's grade, 0 or more.
    """

    needs = ("machine",)

    @checked
    def __init__(
        self,
        doubt: Annotated[float, Positive] = 2.0,
        runs: Annotated[float, NonNegative] = 1.0,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(reward)
        self.doubt, self.runs = float(doubt), float(runs)
        self.choose, self.learn = _choose, _learn

    def options(self) -> MachineOptions:
        return MachineOptions(self.doubt)

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> MachineState:
        lacking = pool.size > 0 and not len(pool.machine)
        refuse(lacking, "there are no grades of a machine", remedy="give machine=FILE, in the form of qrels")
        grades, level = np.unique(pool.machine, return_inverse=True)
        graded = grades != NO_GRADE
        prior = np.full(len(grades), 0.5)
        if graded.sum() > 1:
            prior[graded] = np.linspace(0.1, 0.9, int(graded.sum()))
        fused = np.add.reduceat(1.0 / (61.0 + pool.ranks), pool.offsets[:-1])
        mean = fused.sum() / max(pool.size, 1)  # without a team, a topic may have no documents
        return MachineState(
            level=level.astype(np.int32),
            counts=np.zeros((len(grades), 2)),
            prior=prior,
            # Rounded, so that no last bit decides; a small random number breaks ties.
            by_runs=np.round(self.runs * np.log(fused / mean), 9) + 1e-10 * rng.permutation(pool.size),
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
        )


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    best, most = NO_DOCUMENT, -np.inf
    for document in range(len(state.taken)):
        if state.taken[document] == OPEN:
            level = state.level[document]
            relevant = options.doubt * state.prior[level] + state.counts[level, 1]
            score = np.log(relevant / (options.doubt + state.counts[level, 0] - relevant)) + state.by_runs[document]
            if score > most:
                best, most = document, score
    if best != NO_DOCUMENT:
        state.taken[best] = 0
    return best


@kernel
def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    state.counts[state.level[document], 0] += 1
    state.counts[state.level[document], 1] += reward
