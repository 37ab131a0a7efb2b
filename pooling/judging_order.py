"""Holds the order in which a pool was judged: the result of a simulation, and the input of all figures."""

from __future__ import annotations

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

    def spent(self, budget: int) -> NDArray[np.int64]:
        """Count the judgements that each topic has had when each may have `budget`, or all together `budget` times as
        many.

        A pool smaller than the budget is judged completely; a shared budget is then spent on other topics.
        """
        if self.turns is None or not self.shared:
            return np.minimum(self.sizes, budget)
        topics = len(self.documents)
        return np.bincount(self.turns[: budget * topics], minlength=topics).astype(np.int64)

    def judged(self, topic: int, budget: int) -> NDArray[np.int32]:
        """Return the documents of a topic (given by its number) that are judged when the budget is spent."""
        return self.documents[topic][: int(self.spent(budget)[topic])]
