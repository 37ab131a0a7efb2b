"""Holds the order in which a pool was judged: the result of a simulation, and the input of all figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class JudgingOrder:
    """The order in which an adjudicator had every document of a pool judged.

    Args:
        documents: for each topic int32 [its documents], the documents of its pool in the order of judging.
        turns: int32 [documents of all topics], the topic of each judgement if topics are not judged one after another;
            otherwise None.
        shared: whether the topics with turns share a budget, or have one each.
    """

    documents: list[NDArray[np.int32]]
    turns: NDArray[np.int32] | None = None
    shared: bool = True

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Count the documents of each topic: int64 [topics]."""
        return np.array([len(order) for order in self.documents], np.int64)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The first document of each topic if those of all topics are numbered on: int64 [topics + 1]."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def flat(self) -> NDArray[np.int64]:
        """The documents of all topics in the order of judging, topic after topic, numbered on (`offsets`)."""
        return np.concatenate(self.documents, dtype=np.int64) + np.repeat(self.offsets[:-1], self.sizes)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The position of each judgement within its topic, from 0: int64 [documents of all topics]."""
        return np.arange(self.offsets[-1], dtype=np.int64) - np.repeat(self.offsets[:-1], self.sizes)

    def found(self, these: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count how many of these documents (bool [documents of all topics], for example
        `pyrite.pooling.pool.Pool.relevant`) are judged after each judgement of their topic: int64, as `flat`.
        """
        counted = np.concatenate([[0], np.cumsum(these[self.flat], dtype=np.int64)])
        return counted[1:] - np.repeat(counted[self.offsets[:-1]], self.sizes)

    def found_after(self, these: NDArray[np.bool_], spent: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count how many of these documents are among the first `spent` (int64 [..., topics]) of each topic: int64,
        shaped as `spent`.
        """
        counted = np.concatenate([[0], np.cumsum(these[self.flat], dtype=np.int64)])
        first = self.offsets[:-1]
        return counted[first + np.minimum(spent, self.sizes)] - counted[first]

    def spent(self, budget: int) -> NDArray[np.int64]:
        """Count the judgements that each topic has had when each may have `budget`, or all together `budget` times as
        many: a pool smaller than that is judged completely, and a shared budget is then spent on other topics.
        """
        if self.turns is None or not self.shared:
            return np.minimum(self.sizes, budget)
        topics = len(self.documents)
        return np.bincount(self.turns[: budget * topics], minlength=topics).astype(np.int64)

    def spent_at(self, budgets: Iterable[int]) -> NDArray[np.int64]:
        """Return `spent` for each budget: int64 [budgets, topics]."""
        return np.array([self.spent(budget) for budget in budgets], np.int64).reshape(-1, len(self.documents))

    def judged(self, topic: int, budget: int) -> NDArray[np.int32]:
        """Return the documents of a topic (given by its number) that are judged when the budget is spent."""
        return self.documents[topic][: int(self.spent(budget)[topic])]


def side_by_side(sizes: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the topic of each judgement if topics of these sizes take turns: int32 [documents of all topics]."""
    _, topics = np.nonzero(np.arange(sizes.max(initial=0))[:, None] < sizes)
    return topics.astype(np.int32)
