"""Computes features of queries, and splits queries by a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining

Feature = Literal["positive_rank", "score_gap", "guard_margin", "margin"]
HEAD = 16
"""Documents of a list that the ranker's margin compares the positive with."""


def list_features(
    ranked: RankedLists, relevant: NDArray[np.bool_], candidates: NDArray[np.bool_], depth: int
) -> dict[str, NDArray[np.float32]]:
    """Describe each query's list before its relevant documents are taken out.

    >>> ranked = RankedLists(np.array([[4, 7, 2]], np.int32), np.array([[9, 8, 5]], np.float32))
    >>> list_features(ranked, np.array([[False, True, False]]), np.array([[True, False, True]]), depth=3)
    {'positive_rank': array([2.], dtype=float32), 'score_gap': array([-1.], dtype=float32)}

    Args:
        ranked: the lists, best first; they may be longer than `depth`.
        relevant: bool [q, k], the documents that are judged relevant.
        candidates: bool [q, k], the documents that may be negatives.

    Returns:
        float32 [q] by name. `positive_rank`: the rank of the first relevant document, from 1; `depth` + 1 if there is
        none among the first `depth`. `score_gap`: its score less the best candidate's; −inf without a relevant
        document, else +inf without a candidate.
    """
    head = relevant[:, :depth]
    found = head.any(axis=1)
    rank = np.where(found, head.argmax(axis=1) + 1 if depth and head.size else 0, depth + 1)
    gap = difference(best(ranked.scores[:, :depth], head), best(ranked.scores, candidates))
    return {"positive_rank": rank.astype(np.float32), "score_gap": gap}


def best(scores: NDArray[np.floating], among: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the highest score of some documents [q, k] of each query, −inf if there is none."""
    return np.where(among, scores, -np.inf).max(axis=1, initial=-np.inf).astype(np.float32)


def difference(positive: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return `positive` − `other` [q]; −inf without a positive, else +inf without another."""
    known = np.isfinite(positive) & np.isfinite(other)
    infinite = np.where(np.isfinite(positive), np.inf, -np.inf)
    return np.where(known, np.subtract(positive, other, where=known, out=infinite.copy()), infinite).astype(np.float32)


class QuerySplit:
    """Splits queries by a feature into those below a quantile and the others.

    `positive_rank`, `score_gap` and `guard_margin` are known before the training, so a query is always on the same
    side. Queries with the same rank are ordered by their gap, the largest first. Queries that are equal are on the same
    side, so the split is the possible one that is nearest to the quantile. `margin` changes with the ranker, so each
    batch is split by the margins of its queries.

    Args:
        feature: `positive_rank` and `score_gap` (see `list_features`); `guard_margin`, the score that the guard
            compares the list with, less the best candidate's; or `margin`, the ranker's score of the positive less the
            best of the first `HEAD` documents of the list. Lists are those of the first function that has some.
        quantile: the share of the training's queries that is below, 0 to 1.
    """

    def __init__(self, feature: Feature, quantile: float) -> None:
        self.feature, self.quantile = feature, quantile

    def check(self, functions: dict[str, RetrievalFunction], guarded: bool) -> RetrievalFunction:
        """Return the function whose lists are read; refuse functions without lists, and a feature that needs a guard.

        Args:
            guarded: whether a guard compares the lists.
        """
        listed = next((function for function in functions.values() if function.depth), None)
        if listed is None:
            remedy = "add a function with lists that are made before the training, such as bm25, tfidf or run_file"
            raise BadInput(f"no function of {', '.join(functions)} has lists", "function", remedy)
        if self.feature == "guard_margin" and not guarded:
            remedy = "give sampling.guard.relative or absolute, or choose another feature"
            raise BadInput("guard_margin needs a guard", remedy=remedy)
        return listed

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        """Look up the feature of the training's queries.

        Raises:
            BadInput: if no function has lists, the feature is unknown for them, or it is the same for all queries.
        """
        listed = self.check(functions, guarded=True)
        if self.feature == "margin":
            self.function, self.relevant = listed, RelevantPairs(training.encoded)
            return
        lists: RankedLists | None = getattr(listed, "lists", None)
        values = (None if lists is None else lists.features) or {}
        if self.feature not in values:
            what = f"the lists of {type(listed).__name__} have no {self.feature}"
            raise BadInput(what, "policy.feature", "choose another function or another feature")
        ordered: NDArray[Any] = values[self.feature]
        if self.feature == "positive_rank":
            keys = np.stack([ordered, -values["score_gap"]], axis=1)
            ordered = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        self.is_below = self._below(ordered, np.unique(training.examples.queries))

    def _below(self, values: NDArray[Any], queries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of all queries are below the cut that is nearest to the quantile of `queries`."""
        known = np.sort(values[queries])
        cuts = np.flatnonzero(known[1:] > known[:-1]) + 1  # queries below each possible cut
        if not len(cuts):
            what = f"{self.feature} is the same for all queries"
            raise BadInput(what, "policy.feature", "choose another feature")
        nearest = cuts[np.argmin(np.abs(cuts - self.quantile * len(known)))]
        return np.asarray(values < known[nearest])

    def below(self, batch: Batch, training: RankerTraining) -> NDArray[np.bool_]:
        """Return which queries of a batch are below the quantile [b]."""
        if self.feature != "margin":
            return self.is_below[batch.queries]
        head = self.function.top(batch, HEAD, np.random.default_rng(0)).documents
        head = np.where(self.relevant.among(batch.queries, head), -1, head)
        scores = training.score(batch.queries, np.concatenate([batch.positives[:, None], head], axis=1))
        margins = difference(scores[:, 0], scores[:, 1:].max(axis=1, initial=-np.inf))
        below = np.zeros(len(batch), bool)
        below[np.argsort(margins, kind="stable")[: round(self.quantile * len(batch))]] = True
        return below
