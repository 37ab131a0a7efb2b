"""Drops probable false negatives from the lists of retrieval functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.retrieval.function import RetrievalFunction


@dataclass(frozen=True)
class Guard:
    """Drops candidates that the retrieval function scores almost as high as a relevant document, or higher.

    What is unjudged and looks that relevant may well be. A candidate is kept when its score is at most
    `positive − absolute` and at most `positive − relative·|positive|`, `positive` being the score of the best
    relevant document of the query. Both None: nothing is dropped.

    Args:
        absolute: margin on the function's own scale, from 0 up.
        relative: margin as a share of the positive's score, 0 to 1.

    Raises:
        BadInput: where a margin is out of its range.
    """

    absolute: float | None = None
    relative: float | None = None

    def __post_init__(self) -> None:
        if self.absolute is not None and not self.absolute >= 0:
            raise BadInput(f"absolute is {self.absolute}", "sampling.guard", "choose a number from 0 up")
        if self.relative is not None and not 0 <= self.relative <= 1:
            raise BadInput(f"relative is {self.relative}", "sampling.guard", "choose a share from 0 to 1")

    @property
    def active(self) -> bool:
        """Whether it drops anything at all."""
        return self.absolute is not None or self.relative is not None

    def limits(self, function: RetrievalFunction, sources: Sources) -> NDArray[np.float32] | None:
        """The highest score that each query's candidates may have; None where the function has no scores."""
        positives = best_positive(function, sources)
        return None if positives is None else self.below(positives)

    def below(self, positives: NDArray[np.float32]) -> NDArray[np.float32]:
        """The highest score that a candidate may have, by the score of the best relevant document; +inf for none."""
        limits = np.full_like(positives, np.inf)
        if self.absolute is not None:
            limits = np.minimum(limits, positives - self.absolute)
        if self.relative is not None:
            margins = self.relative * np.abs(positives, where=np.isfinite(positives), out=np.zeros_like(positives))
            limits = np.minimum(limits, positives - margins)
        return limits


def best_positive(function: RetrievalFunction, sources: Sources) -> NDArray[np.float32] | None:
    """The function's highest score of a relevant document, by query; +inf where nothing is relevant."""
    relevant = sources.encoded.judgements.relevant()
    counts = np.diff(relevant.offsets)
    best = np.full(len(counts), np.inf, np.float32)
    # By the number of relevant documents, so that one query with many does not widen all the others.
    for count in np.unique(counts[counts > 0]):
        queries = np.flatnonzero(counts == count)
        documents = relevant.documents[relevant.offsets[queries][:, None] + np.arange(count)]
        scores = function.own_scores(sources, queries, documents)
        if scores is None:
            return None
        best[queries] = scores.max(axis=1)
    return best


def negatives_lists(function: RetrievalFunction, sources: Sources, guard: Guard) -> tuple[RankedLists | None, int]:
    """A function's lists as a run takes them: without relevant and guarded documents.

    Returns:
        The lists (None where the function ranks by itself), and how many documents the guard dropped.
    """
    lists = function.rank(sources)
    if lists is None:
        return None, 0
    lists = lists.without_relevant(sources.encoded.judgements)
    if not guard.active:
        return lists, 0
    limits = guard.limits(function, sources)
    if limits is None:
        raise BadInput(
            f"{type(function).__name__} has no scores of relevant documents to compare with",
            "sampling.guard",
            "set its margins to null, or choose bm25 or tfidf",
        )
    guarded = lists.keep(lists.scores <= limits[:, None])
    return guarded, int(lists.counts.sum() - guarded.counts.sum())
