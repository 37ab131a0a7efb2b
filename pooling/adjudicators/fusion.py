"""Chooses a document, not a run: fuses all runs' ranks, each run weighted by what judging has shown of it."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.compiled import arguments_of, compiled, kernel, options_of
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN
from pyrite.ranking.bounds import checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.kernels import loop

HEAPED, JUDGED = 0, 1
LEAST = 1e-200
"""The highest weight below which weights that are relative are raised; double precision ends at 1e-308."""
PLACES = 4
"""Options of a weight, filled up with zeros: all methods share what Numba compiles for the type of their options."""


class FusionState(NamedTuple):
    """The state of one topic.

    Args:
        rank_weights: float64 [depth], the weight that a run adds to a document at each rank.
        evidence_weights: float64 [depth], how much the judgement of a document at a rank counts for the run.
        seen, gained: float64 [runs], sum of the evidence weights of its judged documents, and of these times their
            rewards.
        weights: float64 [runs].
        priority: int32 [documents], the lowest comes first among tied documents.
        heap: int32 [documents], documents that may be open, as a binary heap whose root has the highest score.
        scores: float64 [documents], for each in the heap the weighted sum over its holders when it was last computed.
        slot: int32 [documents], the position of each document in `heap`.
        rose: bool [runs], whether the last judgement that concerned the run increased its weight.
        fresh: int64 [documents], the number of judgements after which its score was last computed.
        counts: int64 [2], documents in the heap, and judgements.
        lent_seen, lent_gained: float64 [runs], what other topics add to `seen` and `gained`, or what is taken from all
            runs if weights are relative.
        factors: float64 [documents], factor on a document's sum, 0 or more; it changes only when all documents are
            lined up again (`reweigh`).
    """

    rank_weights: NDArray[np.float64]
    evidence_weights: NDArray[np.float64]
    seen: NDArray[np.float64]
    gained: NDArray[np.float64]
    weights: NDArray[np.float64]
    priority: NDArray[np.int32]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]
    heap: NDArray[np.int32]
    scores: NDArray[np.float64]
    slot: NDArray[np.int32]
    rose: NDArray[np.bool_]
    fresh: NDArray[np.int64]
    counts: NDArray[np.int64]
    lent_seen: NDArray[np.float64]
    lent_gained: NDArray[np.float64]
    factors: NDArray[np.float64]


@kernel
def equal(seen, gained):  # type: ignore[no-untyped-def]
    """Return 1: the weight of every run if judgements change nothing."""
    return 1.0


class Fusion(Adjudicator):
    """Judge the document with the highest Σ_s weight_s · rank_weight(rank_s(d)), over the runs s that hold it.

    A method defines the weight that a run adds at a rank (`rank_weight`), how much a judgement at a rank counts for the
    run that holds the document there (`evidence_weight`), and in a compiled function `weight(seen, gained, …)` the
    run's weight, given Σ evidence_weight and Σ evidence_weight · reward over its judged documents; 1 unless a method
    defines it.

    Most judgements only lower weights: nothing relevant was found. A score is computed again when its document comes
    up, for until then the old one is an upper bound; only if a weight rises are the run's documents updated at once.
    Rounding keeps this order too, as it is monotonic and the terms are always added in the same order; so the document
    chosen is exactly the one that computing all scores before each choice would give. That requires rank weights that
    are not negative.

    Attributes:
        relative: whether a weight is a power of seen - 2 · gained, so that only proportions of weights count. If all
            become tiny, the least of these is subtracted from all, or floats would end in zeros, and documents in ties.

    Args:
        ties: how ties between documents are broken: `random`, or `first` in the order of their ids.
    """

    weight: Any = staticmethod(equal)
    relative = False

    @checked
    def __init__(self, ties: Literal["random", "first"] = "random", reward: GradeReward | None = None) -> None:
        super().__init__(reward)
        self.random_ties = ties == "random"
        self.choose, self.learn = _choose, _learn_of(self.weight, self.relative)

    @abstractmethod
    def rank_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight that a run adds to a document at each rank (1, 2, …)."""

    def evidence_weight(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much a judgement at each rank (1, 2, …) counts for the run."""
        return np.ones_like(ranks)

    @property
    def weight_options(self) -> tuple[float, ...]:
        """The options of `weight`, after its first two arguments."""
        return options_of(self.weight, self, 2)

    def options(self) -> tuple[float, ...]:
        return self.weight_options + (0.0,) * (PLACES - len(self.weight_options))

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> FusionState:
        ranks = np.arange(1.0, pool.ranking.shape[1] + 1)
        size = pool.size
        state = FusionState(
            rank_weights=self._checked("rank_weight", ranks),
            evidence_weights=self._checked("evidence_weight", ranks),
            seen=np.zeros(len(runs)),
            gained=np.zeros(len(runs)),
            weights=np.full(len(runs), float(self.weight(0.0, 0.0, *self.weight_options))),
            priority=(rng.permutation(size) if self.random_ties else np.arange(size)).astype(np.int32),
            taken=np.full(size, OPEN, np.int32),
            rewards=np.full(size, np.nan),
            heap=np.empty(size, np.int32),
            scores=np.empty(size),
            slot=np.empty(size, np.int32),
            rose=np.zeros(len(runs), bool),
            fresh=np.zeros(size, np.int64),
            counts=np.zeros(2, np.int64),
            lent_seen=np.zeros(len(runs)),
            lent_gained=np.zeros(len(runs)),
            factors=np.ones(size),
        )
        reweigh(pool, state)
        return state

    def _checked(self, method: str, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a method of a subclass, maybe the user's, returns for each rank."""
        values = np.asarray(getattr(self, method)(ranks), np.float64)
        if values.shape != ranks.shape or not np.isfinite(values).all():
            what = f"{type(self).__name__}.{method} returned {values} for {len(ranks)} ranks"
            raise BadInput(what.replace("\n", ""), "method", "return one finite number per rank")
        return values


@cache
def _learn_of(weight: Any, relative: bool) -> Any:
    given = len(arguments_of(weight)) - 2
    name = f"{weight.__module__.rpartition('.')[2]}_{weight.__name__}" + "_relative" * relative
    return compiled(_learn, name, weight=weight, given=given, relative=int(relative))


# Documents and slots are int64 wherever a function takes one: Numba compiles it again for each type.


@kernel
def _score(pool, state, document):  # type: ignore[no-untyped-def]
    # Summed from scratch each time: adding and subtracting would leave rounding errors behind, and break ties.
    score = 0.0
    for cell in range(pool.offsets[document], pool.offsets[document + 1]):
        score += state.weights[pool.holders[cell]] * state.rank_weights[pool.ranks[cell]]
    state.fresh[document] = state.counts[JUDGED]
    return score * state.factors[document]


@kernel
def _choose(pool, state, options, rng):  # type: ignore[no-untyped-def]
    while state.counts[HEAPED]:
        document = np.int64(state.heap[0])
        if state.taken[document] != OPEN:
            _remove_root(state)
        elif state.fresh[document] == state.counts[JUDGED]:
            state.taken[document] = 0
            _remove_root(state)
            return document
        else:
            _sink(state, document, _score(pool, state, document), np.int64(0))
    return NO_DOCUMENT


def _learn(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    state.rewards[document] = reward
    state.counts[JUDGED] += 1
    first, end = pool.offsets[document], pool.offsets[document + 1]
    for cell in range(first, end):
        run, weighs = pool.holders[cell], state.evidence_weights[pool.ranks[cell]]
        before = state.weights[run]
        state.seen[run] += weighs
        state.gained[run] += weighs * reward
        total, won = state.seen[run] + state.lent_seen[run], state.gained[run] + state.lent_gained[run]
        state.weights[run] = weight(total, won, *options[:given])  # type: ignore[name-defined]  # noqa: F821
        state.rose[run] = state.weights[run] > before
    for cell in range(first, end):
        run = pool.holders[cell]
        if state.rose[run]:
            for other in pool.ranking[run, : pool.lengths[run]]:
                if state.taken[other] == OPEN and state.fresh[other] != state.counts[JUDGED]:
                    _refresh(pool, state, np.int64(other))
    if relative and _highest(state.weights) < LEAST:  # type: ignore[name-defined]  # noqa: F821
        least = _least_loss(state)
        for run in range(len(state.weights)):
            state.lent_seen[run] = -least
            total, won = state.seen[run] + state.lent_seen[run], state.gained[run] + state.lent_gained[run]
            state.weights[run] = weight(total, won, *options[:given])  # type: ignore[name-defined]  # noqa: F821
        reweigh(pool, state)


@kernel
def _highest(weights):  # type: ignore[no-untyped-def]
    highest = 0.0
    for weight in weights:
        highest = max(highest, weight)
    return highest


@kernel
def _least_loss(state):  # type: ignore[no-untyped-def]
    least = np.inf
    for run in range(len(state.seen)):
        least = min(least, state.seen[run] - 2.0 * state.gained[run])
    return least


@kernel
def _refresh(pool, state, document):  # type: ignore[no-untyped-def]
    slot = np.int64(state.slot[document])
    score = _score(pool, state, document)
    if score > state.scores[slot]:
        _rise(state, document, score, slot)
    else:
        _sink(state, document, score, slot)


@kernel
def _goes_before(state, one, score, slot):  # type: ignore[no-untyped-def]
    if score == state.scores[slot]:
        return state.priority[one] < state.priority[state.heap[slot]]
    return score > state.scores[slot]


@kernel
def _put(state, document, score, slot):  # type: ignore[no-untyped-def]
    state.heap[slot], state.slot[document], state.scores[slot] = document, slot, score


@kernel
def _rise(state, document, score, slot):  # type: ignore[no-untyped-def]
    """Put a document in the heap at a slot that it fills, or above."""
    while slot:
        parent = (slot - 1) // 2
        if not _goes_before(state, document, score, parent):
            break
        _put(state, np.int64(state.heap[parent]), state.scores[parent], slot)
        slot = parent
    _put(state, document, score, slot)


@kernel
def _sink(state, document, score, slot):  # type: ignore[no-untyped-def]
    """Put a document in the heap at a slot that it fills, or below."""
    size = state.counts[HEAPED]
    while 2 * slot + 1 < size:
        child = 2 * slot + 1
        if child + 1 < size and _goes_before(state, np.int64(state.heap[child + 1]), state.scores[child + 1], child):
            child += 1
        if _goes_before(state, document, score, child):
            break
        _put(state, np.int64(state.heap[child]), state.scores[child], slot)
        slot = child
    _put(state, document, score, slot)


@kernel
def _remove_root(state):  # type: ignore[no-untyped-def]
    state.counts[HEAPED] -= 1
    last = state.counts[HEAPED]
    _sink(state, np.int64(state.heap[last]), state.scores[last], np.int64(0))


@loop
def reweigh(pool, state):  # type: ignore[no-untyped-def]
    """Line up the open documents, at the start and after all weights and factors have changed."""
    state.counts[HEAPED] = 0
    for document in range(len(state.taken)):
        if state.taken[document] == OPEN:
            score = _score(pool, state, document)
            state.counts[HEAPED] += 1
            _rise(state, document, score, state.counts[HEAPED] - 1)
