"""Narrows a retrieval function's lists to a window of ranks, whatever selector picks from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from sampling.retrieval.function import CandidateBatch, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch


class WindowedFunction(RetrievalFunction):
    """A retrieval function of which only the ranks `first` to `last` are visible: a policy's hardness window.

    Args:
        function: the function.
        first: the first rank of the window, from 1.
        last: the last rank of the window.

    Raises:
        BadInput: if the window is empty.
    """

    def __init__(self, function: RetrievalFunction, first: int, last: int) -> None:
        check_window((first, last))
        self.function, self.first, self.last = function, first, last
        self.depth = function.depth

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.function.prepare(encoded, lists)

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self._cut(self.function.top(batch, min(self.first - 1 + count, self.last), rng))

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        window = self._cut(self.function.top(batch, self.last, rng))
        keys = np.where(window.documents < 0, np.inf, rng.random(window.documents.shape))
        drawn = np.argsort(keys, axis=1, kind="stable")[:, :count]
        tier = None if window.tier is None else np.take_along_axis(window.tier, drawn, 1)
        documents, scores = np.take_along_axis(window.documents, drawn, 1), np.take_along_axis(window.scores, drawn, 1)
        return CandidateBatch(documents, scores, tier=tier)

    def _cut(self, head: CandidateBatch) -> CandidateBatch:
        tier = None if head.tier is None else head.tier[:, self.first - 1 :]
        return CandidateBatch(head.documents[:, self.first - 1 :], head.scores[:, self.first - 1 :], tier=tier)


def check_window(window: object) -> tuple[int, int]:
    """Return the first and the last rank of a window.

    Raises:
        BadInput: if they are not two whole numbers from 1 up, in order.
    """
    ranks = list(window) if isinstance(window, list | tuple) else []
    if len(ranks) != 2 or any(type(rank) is not int for rank in ranks) or not 1 <= ranks[0] <= ranks[1]:
        raise BadInput(f"the window is {window!r}", "policy.window", "give the first rank and the last, as [1,20]")
    return ranks[0], ranks[1]
