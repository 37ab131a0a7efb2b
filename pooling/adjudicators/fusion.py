"""Choosing the document and not the run: all runs' ranks are fused, each run weighted by what judging has shown."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.adjudicator import OPEN, Adjudicator
from pooling.adjudicators.compiled import compiled, kernel
from pooling.pool import NOTHING, TopicPool
from pooling.rewards import Reward
from ranking.errors import BadInput


class Options(NamedTuple):
    """Of `Fusion`, for compiled functions."""

    parameters: tuple[float, ...]


class State(NamedTuple):
    """Of one topic.

    Args:
        share, lesson: float64 [depth], what a run adds to a document at each rank, and how much it is concerned when
            that document is judged.
        seen, gained: float64 [runs], sum of the lessons of its judged documents, and of these times their rewards.
        weights: float64 [runs].
        scores: float64 [documents], the weighted sum over the holders.
        priority: int32 [documents], who goes first among those tied: the lowest.
        taken, rewards: as every adjudicator has them.
        open: int32 [documents], those not handed out yet come first.
        slot: int32 [documents], where each document is in `open`.
        fresh: int64 [documents], the judgement after which its score was summed last.
        counts: int64 [2], documents not handed out, and judgements.
    """

    share: NDArray[np.float64]
    lesson: NDArray[np.float64]
    seen: NDArray[np.float64]
    gained: NDArray[np.float64]
    weights: NDArray[np.float64]
    scores: NDArray[np.float64]
    priority: NDArray[np.int32]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]
    open: NDArray[np.int32]
    slot: NDArray[np.int32]
    fresh: NDArray[np.int64]
    counts: NDArray[np.int64]


class Fusion(Adjudicator):
    """Judges the document with the highest Σ_s weight_s · share(rank_s(d)), over the runs s that hold it.

    A method says what a run adds at a rank (`share`), how much a judgement at a rank concerns the run that holds the
    document there (`lesson`), and in a compiled function `weight(seen, gained, parameters)` what weight follows
    from Σ lesson and Σ lesson · reward over the run's judged documents.

    Args:
        ties: between documents: `random`, or `first` in the order of their ids.
        reward: what is heard of a judgement.
    """

    weight: Any

    def __init__(self, ties: Literal["random", "first"] = "random", reward: Reward | None = None) -> None:
        super().__init__(reward)
        self.random_ties = ties == "random"
        self.choose, self.take, self.learn = _choose, _take, _learn_of(self.weight)

    @abstractmethod
    def share(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a run adds to a document at each rank (1, 2, …)."""

    def lesson(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much a judgement at each rank (1, 2, …) concerns the run."""
        return np.ones_like(ranks)

    def parameters(self) -> tuple[float, ...]:
        """What `weight` needs of the options."""
        return (0.0,)

    def options(self) -> Options:
        return Options(self.parameters())

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> State:
        ranks = np.arange(1.0, pool.ranking.shape[1] + 1)
        size = pool.size
        weights = np.full(len(runs), float(self.weight(0.0, 0.0, self.parameters())))
        share = self.share(ranks)
        state = State(
            share,
            self.lesson(ranks),
            np.zeros(len(runs)),
            np.zeros(len(runs)),
            weights,
            np.empty(size),
            (rng.permutation(size) if self.random_ties else np.arange(size)).astype(np.int32),
            np.full(size, OPEN, np.int32),
            np.full(size, np.nan),
            np.arange(size, dtype=np.int32),
            np.arange(size, dtype=np.int32),
            np.full(size, -1, np.int64),
            np.array([size, 0], np.int64),
        )
        _score_all(pool, state)
        return state


@cache
def _learn_of(weight: Any) -> Any:
    return compiled(_learn, f"{weight.__module__.rpartition('.')[2]}_{weight.__name__}", weight=weight)


@kernel
def _score(pool, state, document):  # type: ignore[no-untyped-def]
    # Summed anew each time: what is added and taken away again would leave its rounding behind, and break ties.
    score = 0.0
    for cell in range(pool.offsets[document], pool.offsets[document + 1]):
        score += state.weights[pool.holders[cell]] * state.share[pool.ranks[cell]]
    state.scores[document] = score


@kernel
def _score_all(pool, state):  # type: ignore[no-untyped-def]
    for document in range(len(state.taken)):
        _score(pool, state, document)


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    best = NOTHING
    for document in state.open[: state.counts[0]]:
        if best < 0 or state.scores[document] > state.scores[best]:
            best = document
        elif state.scores[document] == state.scores[best] and state.priority[document] < state.priority[best]:
            best = document
    if best >= 0:
        _take(pool, state, options, best, 0)
    return best


@kernel
def _take(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    state.taken[document] = supplier
    state.counts[0] -= 1
    last, slot = state.open[state.counts[0]], state.slot[document]
    state.open[slot], state.slot[last] = last, slot


def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    state.counts[1] += 1
    first, end = pool.offsets[document], pool.offsets[document + 1]
    for cell in range(first, end):
        run, lesson = pool.holders[cell], state.lesson[pool.ranks[cell]]
        state.seen[run] += lesson
        state.gained[run] += lesson * reward
        state.weights[run] = weight(state.seen[run], state.gained[run], options.parameters)  # type: ignore[name-defined]  # noqa: F821
    for cell in range(first, end):
        run = pool.holders[cell]
        for other in pool.ranking[run, : pool.lengths[run]]:
            if state.taken[other] == OPEN and state.fresh[other] != state.counts[1]:
                state.fresh[other] = state.counts[1]
                _score(pool, state, other)


def check_between(name: str, value: float, low: float, high: float) -> float:
    """An option that must lie strictly between two numbers.

    Raises:
        BadInput: where it does not.
    """
    if not low < value < high:
        raise BadInput(f"{name} is {value}", remedy=f"give a number above {low:g} and below {high:g}")
    return float(value)
