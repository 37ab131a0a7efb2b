"""Drops probable false negatives from the lists of retrieval functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ranking.bounds import AtLeast, Fraction, NonNegative, checked
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.guarded_documents import GuardedDocuments
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.function import RetrievalFunction

DEEPER = 4
"""If a ranker guards a list, the list is searched up to this many times its length to refill it."""
FIRST = 32
"""Fewest documents of the first search with a guard: a search for this many costs little more than for a few."""
WIDER = 4
"""Factor by which the search is widened if that was too few."""
CELLS = 1 << 22
"""Largest number of list cells searched at once: bounds the memory when lists are widened."""


@checked
@dataclass(frozen=True)
class Guard:
    """Drops candidates that the retrieval function scores almost as high as a relevant document, or higher.

    An unjudged document that looks that relevant may well be. A candidate is kept if its score is at most `positive −
    absolute` and at most `positive − relative·|positive|`; `positive` is the score of the best relevant document of the
    query. If both are None, nothing is dropped. If a function finds none of a query's relevant documents, no margin
    drops anything for that query. These are TopK-MarginPos, TopK-PercPos and TopK-Abs (Moreira et al. 2024, section
    3.2).

    With `ranker` the scores are those of a trained ranker: denoising by a teacher (RocketQA; Qu et al. 2021, section
    3.2.2), which recognises unjudged relevant documents better than the function does.

    Args:
        absolute: margin on the scale of the scores, from 0 up; None for no such margin.
        relative: margin as a share of the positive's score, 0 to 1, e.g. 0.05; None for no such margin.
        ceiling: the highest score that a candidate may have, on the scale of the scores; None for any.
        ranker: the ranker whose scores are compared: a trained run's folder or a checkpoint; None compares the scores
            of the function.
        deepest: the last rank that is searched to refill a list whose first documents were dropped; None searches as
            far as needed, with a ranker `DEEPER` times the list's length.

    Raises:
        BadInput: if an option is out of its range.
    """

    absolute: Annotated[float, NonNegative] | None = None
    relative: Annotated[float, Fraction] | None = None
    ceiling: float | None = None
    ranker: Any = None
    deepest: Annotated[int, AtLeast(1)] | None = None

    def __post_init__(self) -> None:
        if self.ranker is not None and not self.active:
            remedy = "give absolute, relative or ceiling too"
            raise BadInput("a ranker without a margin drops nothing", "sampling.guard.ranker", remedy)

    @property
    def active(self) -> bool:
        """Whether it drops anything."""
        return self.absolute is not None or self.relative is not None or self.ceiling is not None

    def below(self, positives: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the highest score that a candidate may have, given the positives' scores; +inf for no limit."""
        limits = np.full_like(positives, np.inf)
        if self.absolute is not None:
            limits = np.minimum(limits, positives - self.absolute)
        if self.relative is not None:
            margins = self.relative * np.abs(positives, where=np.isfinite(positives), out=np.zeros_like(positives))
            limits = np.minimum(limits, positives - margins)
        if self.ceiling is not None:
            limits = np.minimum(limits, np.float32(self.ceiling))
        return limits

    def scores(
        self, function: RetrievalFunction, sources: Sources, queries: NDArray[np.integer], ranked: RankedLists
    ) -> NDArray[np.float32]:
        """Return the scores [q, k] that candidates are dropped by, −inf for none."""
        if self.ranker is None:
            return ranked.scores
        scores: NDArray[np.float32] = self.ranker.own_scores(sources, queries, ranked.documents)
        return scores

    def record(
        self,
        queries: NDArray[np.integer],
        ranked: RankedLists,
        dropped: NDArray[np.bool_],
        positives: NDArray[np.float32],
        depth: int,
    ) -> GuardedDocuments:
        """Record the documents that were dropped from the lists of some queries, and why.

        Args:
            queries: int [q].
            ranked: the lists of the queries.
            dropped: bool [q, k], the documents that were dropped.
            positives: float32 [q], the scores of the best relevant documents.
            depth: the number of dropped documents per query that are recorded.
        """
        rows, places = np.nonzero(dropped & (np.cumsum(dropped, axis=1) <= depth))
        scores, best = ranked.scores[rows, places], positives[rows]
        absolute = 0 if self.absolute is None else self.absolute
        reasons = np.where(scores > best, 0, np.where(scores > best - absolute, 1, 2)).astype(np.int8)
        if self.ceiling is not None:  # below every margin, above the ceiling
            within = Guard(self.absolute, self.relative).below(best)
            reasons[scores <= within] = 3
        documents = ranked.documents[rows, places]
        return GuardedDocuments(
            np.asarray(queries)[rows].astype(np.int32), documents, scores, best, reasons, int(dropped.sum())
        )


def best_positive(
    function: RetrievalFunction, sources: Sources, asked: NDArray[np.integer] | None = None
) -> NDArray[np.float32] | None:
    """Return the function's highest score of a relevant document for each query, +inf if it finds none.

    None if the function has no scores of pairs.

    Args:
        function: the function.
        sources: the collection and indexes that it ranks with.
        asked: int [q], the queries; None for all.
    """
    relevant = sources.encoded.judgements.relevant()
    asked = np.arange(len(sources.encoded.queries)) if asked is None else asked
    counts = np.diff(relevant.offsets)[asked]
    best = np.full(len(asked), np.inf, np.float32)
    # Grouped by the number of relevant documents, so that one query with many does not widen all others.
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        documents = relevant.documents[relevant.offsets[asked[rows]][:, None] + np.arange(count)]
        scores = function.own_scores(sources, asked[rows], documents)
        if scores is None:
            return None
        highest = scores.max(axis=1)
        best[rows] = np.where(np.isfinite(highest), highest, np.inf)
    return best


def negatives_lists(
    function: RetrievalFunction, sources: Sources, guard: Guard, asked: NDArray[np.integer] | None = None
) -> tuple[RankedLists | None, GuardedDocuments]:
    """Return a function's lists as a run uses them: without relevant and guarded documents, filled to the full depth.

    A list that falls short of the function's depth is searched again, deeper, until it is full, the function finds no
    more, or `guard.deepest` is reached.

    Args:
        function: the function, not yet prepared.
        sources: the collection and indexes that it ranks with.
        guard: decides which documents must not be shown.
        asked: int [q], the queries whose lists are made; None for all.

    Returns:
        The lists of those queries in their order (None if the function ranks during the training), and the documents
        that the guard dropped.
    """
    if type(function).rank is RetrievalFunction.rank:
        return None, GuardedDocuments.joined([])
    queries = np.arange(len(sources.encoded.queries)) if asked is None else np.asarray(asked)
    pairs = RelevantPairs(sources.encoded.judgements, len(sources.encoded.documents))
    lists = RankedLists(
        np.full((len(queries), function.depth), -1, np.int32),
        np.full((len(queries), function.depth), -np.inf, np.float32),
    )
    dropped: list[GuardedDocuments] = []
    first = np.minimum(pairs.counts[queries], function.depth)  # this many more are searched from the start
    left, width = np.arange(len(queries)), function.depth + int(first.max(initial=0))
    # A ranker is slow: if it drops too much, a list stays short.
    deepest = pairs.size if guard.ranker is None else DEEPER * width
    if guard.active and guard.ranker is None:
        width = max(width, FIRST)
    if guard.deepest is not None:
        deepest = min(deepest, guard.deepest)
        width = min(width, deepest)
    while len(left):
        short, step = [], max(1, CELLS // width)
        for start in range(0, len(left), step):
            rows = left[start : start + step]
            whole, found, part = _guarded(function, sources, guard, pairs, queries[rows], width)
            done = ((found.documents >= 0).all(axis=1)) | ~whole | (width >= deepest)
            lists.documents[rows[done]], lists.scores[rows[done]] = found.documents[done], found.scores[done]
            dropped.append(part(done))
            short.append(rows[~done])
        left, width = np.concatenate(short), min(WIDER * width, max(deepest, width + 1))
    return lists, GuardedDocuments.joined(dropped)


def _guarded(
    function: RetrievalFunction,
    sources: Sources,
    guard: Guard,
    pairs: RelevantPairs,
    rows: NDArray[np.integer],
    width: int,
) -> tuple[NDArray[np.bool_], RankedLists, Callable[[NDArray[np.bool_]], GuardedDocuments]]:
    """Build the lists of `rows` from the first `width` documents.

    Returns:
        Which queries have more documents beyond those; the lists, cut to the function's depth; and a function that
        returns the record of what was dropped for some of the queries.
    """
    ranked = function.rank(sources, rows, width)
    assert ranked is not None
    more = ranked.counts >= width
    candidates = (ranked.documents >= 0) & ~pairs.among(rows, ranked.documents)
    positives, allowed = np.full(len(rows), np.inf, np.float32), candidates
    judged_by, others = ranked.scores, np.zeros_like(candidates)
    if guard.active:
        best = best_positive(guard.ranker or function, sources, rows)
        if best is None and guard.absolute is guard.relative is None:
            best = positives
        if best is None:
            raise BadInput(
                f"{type(function).__name__} has no scores of relevant documents to compare with",
                "sampling.guard",
                "set its margins to null, or choose bm25, tfidf, embedding or run_file",
            )
        positives, judged_by = best, guard.scores(function, sources, rows, ranked)
        above = judged_by > guard.below(positives)[:, None]
        allowed = candidates & ~above
        others = (ranked.documents >= 0) & ~candidates & above & (judged_by < positives[:, None])
    kept = ranked.keep(allowed)
    depth = function.depth
    documents = np.full((len(rows), depth), -1, np.int32)
    scores = np.full((len(rows), depth), -np.inf, np.float32)
    there = min(depth, kept.documents.shape[1])
    documents[:, :there], scores[:, :there] = kept.documents[:, :there], kept.scores[:, :there]

    def part(done: NDArray[np.bool_]) -> GuardedDocuments:
        # The dropped documents ahead of the last one that the list needed.
        out = candidates & ~allowed & done[:, None] & (np.cumsum(allowed, axis=1) < depth)
        record = guard.record(rows, RankedLists(ranked.documents, judged_by), out, positives, depth)
        return replace(record, relevant=int((others & done[:, None]).sum()))

    return more, RankedLists(documents, scores), part
