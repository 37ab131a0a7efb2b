"""Defines the interface of every order of judging: choose the next document to judge, learn its grade."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.compiled import compiled, kernel
from pyrite.pooling.method import Method
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import Binary, GradeReward
from pyrite.pooling.sentinels import OPEN, OUTSIDE
from pyrite.ranking.bounds import checked
from pyrite.ranking.errors import refuse


@kernel
def mark(pool, state, options, document, supplier):  # type: ignore[no-untyped-def]
    """Take a document when nothing else depends on it."""
    state.taken[document] = supplier


@kernel
def record(pool, state, options, document, reward):  # type: ignore[no-untyped-def]
    """Learn a judgement that nothing but the rewards depends on."""
    state.rewards[document] = reward


class Adjudicator(Method):
    """An order of judging: its options and the compiled functions that implement it.

    It holds nothing of any topic: `start` makes the state, a named tuple of arrays with at least `taken` (int32
    [documents], `OPEN`, or the number of the run that supplied the document) and `rewards` (float64 [documents], NaN
    until judged). The functions are compiled, so that a simulation runs them in one loop and `Adjudication` one at a
    time:

    - `choose(pool, state, options, rng)` picks a document that is `OPEN`, takes it and returns it, or returns
      `NO_DOCUMENT` if none is left;
    - `take(pool, state, options, document, supplier)` marks a document as handed out;
    - `learn(pool, state, options, document, reward)` receives the judgement of a document that was taken.

    Documents and suppliers are int64 wherever they are passed: Numba compiles again for each type.

    Args:
        reward: how a grade becomes a reward; None is `pyrite.pooling.rewards.Binary`.
    """

    needs: tuple[str, ...] = ()
    """What the pool must have besides runs: `texts` (`pyrite.pooling.terms`), or a `machine`'s grades."""
    compiles: ClassVar[bool] = True
    """Whether its functions are compiled, so that another order can be compiled around it."""

    choose: Any
    take: Any = staticmethod(mark)
    learn: Any = staticmethod(record)

    @checked
    def __init__(self, reward: GradeReward | None = None) -> None:
        self.reward = reward or Binary()

    @abstractmethod
    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> Any:
        """Return the state before the first judgement of a topic.

        Args:
            rng: the topic's generator; breaks ties.
        """

    def options(self) -> Any:
        """Return the options that the compiled functions need: a tuple of numbers, named or not."""
        return ()

    @property
    def loop(self) -> Any:
        """Return the simulation's loop, compiled for this method."""
        refuse(
            not hasattr(self, "choose"),
            "has no choose",
            f"{type(self).__module__}.{type(self).__name__}",
            "write a function with @kernel, and choose = that function",
        )
        return _loop(self.choose, self.learn)


@cache
def _loop(choose: Any, learn: Any) -> Any:
    return compiled(_judge_all, choose.__qualname__ + learn.__qualname__, choose=choose, learn=learn)


def topic_rng(seed: int, topic: str) -> np.random.Generator:
    """Return the generator of a topic. It depends on the topic's id, not on the other topics."""
    return np.random.default_rng([seed, zlib.crc32(topic.encode())])


def judging_order(
    adjudicator: Adjudicator, pool: TopicPool, rewards: NDArray[np.float64], rng: np.random.Generator, runs: list[str]
) -> NDArray[np.int32]:
    """Return the order in which a topic's documents are judged, given the rewards that the method will receive: int32
    [documents].
    """
    order = np.empty(pool.size, np.int32)
    state = adjudicator.start(pool, rng, runs)
    adjudicator.loop(pool, state, adjudicator.options(), rng, rewards, order)
    refuse(
        (np.bincount(order[order >= 0], minlength=pool.size) != 1).any(),  # a method of the user's own
        f"{type(adjudicator).__name__} did not choose each of a topic's {pool.size:,} documents once",
        "method",
        "choose one that is open, until none is left",
    )
    return order


def _judge_all(pool, state, options, rng, rewards, order):  # type: ignore[no-untyped-def]
    for turn in range(len(order)):
        document = choose(pool, state, options, rng)  # type: ignore[name-defined]  # noqa: F821
        order[turn] = document
        learn(pool, state, options, document, rewards[document])  # type: ignore[name-defined]  # noqa: F821


class Adjudication:
    """The judging of one topic one step at a time, for people.

    The order is that of `judging_order` from the same seed. Several documents may be handed out at once; none is handed
    out twice.
    """

    def __init__(
        self,
        adjudicator: Adjudicator,
        pool: TopicPool,
        rng: np.random.Generator,
        runs: list[str],
        relevant_from: int = 1,
        highest: int = 1,
    ) -> None:
        self._adjudicator, self._pool, self._rng = adjudicator, pool, rng
        self._relevant_from, self._highest = relevant_from, highest
        self.state, self._options = adjudicator.start(pool, rng, runs), adjudicator.options()

    def next(self) -> int | None:
        """Return a document that was not handed out yet, or None if none is left."""
        document = int(self._adjudicator.choose(self._pool, self.state, self._options, self._rng))
        return None if document < 0 else document

    def judge(self, document: int, grade: int) -> None:
        """Learn the grade of a document, whether handed out here or judged elsewhere."""
        if not 0 <= document < self._pool.size:
            raise ValueError(f"there is no document {document} in this pool")
        if not np.isnan(self.state.rewards[document]):
            raise ValueError(f"document {document} was judged before")
        if self.state.taken[document] == OPEN:
            self._adjudicator.take(self._pool, self.state, self._options, np.int64(document), np.int64(OUTSIDE))
        reward = float(self._adjudicator.reward(grade, self._relevant_from, self._highest))
        self._adjudicator.learn(self._pool, self.state, self._options, np.int64(document), reward)

    def supply(self, run: int) -> int:
        """Return the best document of a run that was not handed out yet, whatever the method would have chosen."""
        for document in self._pool.ranking[run, : self._pool.lengths[run]]:
            if self.state.taken[document] == OPEN:
                self._adjudicator.take(self._pool, self.state, self._options, np.int64(document), np.int64(run))
                return int(document)
        raise ValueError(f"the run {run} has no document left")

    def is_open(self, document: int) -> bool:
        """Return whether the document is of this pool and was neither handed out nor judged."""
        return 0 <= document < self._pool.size and bool(self.state.taken[document] == OPEN)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Whether each document was judged: bool [documents]."""
        return ~np.isnan(self.state.rewards)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on: arrays by name, and the generator's state."""
        arrays = {name: array.copy() for name, array in _flat(self.state).items()}
        return {"rng": self._rng.bit_generator.state, "arrays": arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, with the same adjudicator and pool."""
        own = _flat(self.state)
        shapes, others = ({name: a.shape for name, a in arrays.items()} for arrays in (own, state["arrays"]))
        if shapes != others:
            raise ValueError("the state is of another pool or another method")
        for name, array in state["arrays"].items():
            own[name][...] = array
        self._rng.bit_generator.state = state["rng"]


def _flat(state: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, tuple):
            arrays |= _flat(value, f"{prefix}{name}.")
        else:
            arrays[prefix + name] = value
    return arrays
