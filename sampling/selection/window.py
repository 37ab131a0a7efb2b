"""Picks negatives within a window of ranks and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector, pick

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class Window(Selector):
    """Documents at certain ranks of the list, without those that score too high.

    The first documents of a list are often relevant and were never judged; those far down teach little. Other tools
    call these options `range_min`, `range_max` and `max_score`. For a ceiling that depends on the positive's score use
    the guard (`pyrite.sampling.guard.Guard`).

    Args:
        first: rank of the first document that may be picked, from 1.
        last: rank of the last one.
        ceiling: the highest score, on the function's scale, that a document may have; None for any.
        pick: `random` draws uniformly from the window, `first` picks its head.

    Raises:
        BadInput: if the window is empty or `pick` is unknown.
    """

    independent = True

    @checked
    def __init__(
        self,
        first: Annotated[int, Positive] = 10,
        last: Annotated[int, Positive] = 50,
        ceiling: float | None = None,
        pick: Literal["random", "first"] = "random",
    ) -> None:
        refuse(
            last < first, f"last is {last} and first is {first}", "selector.last", "let it be at least selector.first"
        )
        self.first, self.last, self.ceiling, self.pick = first, last, ceiling, pick

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        head = function.top(batch, self.last, rng)
        documents, scores = head.documents[:, self.first - 1 :], head.scores[:, self.first - 1 :]
        if self.ceiling is not None:
            documents = np.where(scores > self.ceiling, -1, documents)
        keys = -np.arange(documents.shape[1], dtype=float) if self.pick == "first" else rng.random(documents.shape)
        return pick(CandidateBatch(documents, scores), keys, count)
