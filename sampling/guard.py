"""Drops probable false negatives from the lists of retrieval functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, Fraction, NonNegative, checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.part import Part
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import RetrievalFunction

DEEPER = 4
"""If a ranker guards a list, the list is searched up to this many times its length to refill it."""
FIRST = 32
"""Fewest documents of the first search with a guard: a search for this many costs little more than for a few."""
WIDER = 4
"""Factor by which the search is widened if that was too few."""
CELLS = 1 << 22
"""Largest number of list cells searched at once: bounds the memory when lists are widened."""


@checked
@dataclass(frozen=True, kw_only=True, repr=False)
class Guard(Part):
    """Drops candidates that the retrieval function scores almost as high as a relevant document, or higher.

    An unjudged document that looks that relevant may well be. A candidate is kept if its score is at most `positive −
    absolute` and at most `positive − relative·|positive|`; `positive` is the score of a relevant document of the query,
    chosen by the option `positive`. No limit is above the positive, also if its score is below 0. If both margins are
    None, nothing is dropped. If a function gives no relevant document of a query a score (in `mine` the row's positive,
    with `positive=own`), no margin drops anything for it. These are TopK-MarginPos, TopK-PercPos and TopK-Abs
    (Moreira et al. 2024, section 3.2).

    With `ranker` the scores are those of a trained ranker: denoising by a teacher (RocketQA; Qu et al. 2021, section
    3.2.2), which recognises unjudged relevant documents better than the function does.

    Args:
        absolute: margin on the scale of the scores (20 times the cosine for a cosine ranker), from 0 up; None for no
            such margin.
        relative: margin as a share of the positive's score, 0 to 1, e.g. 0.05; None for no such margin.
        ceiling: the highest score that a candidate may have, on the scale of the scores; None for any.
        ranker: the ranker whose scores are compared: a trained run's folder or a checkpoint; None compares the scores
            of the function.
        deepest: the last rank that is searched to refill a list whose first documents were dropped; None searches as
            far as needed, with a ranker `DEEPER` times the list's length.
        positive: the relevant document that candidates are compared with, if a query has several: `lowest`, the one
            with the lowest score (as in sentence-transformers), `best`, the one with the highest, or `own`, the
            positive of the row, when rows are mined. None takes `own` when rows are mined, and `lowest` otherwise.

    Raises:
        BadInput: if a ranker is given without a margin.
    """

    absolute: Annotated[float, NonNegative] | None = None
    relative: Annotated[float, Fraction] | None = None
    ceiling: float | None = None
    ranker: Any = None
    deepest: Annotated[int, AtLeast(1)] | None = None
    positive: Literal["lowest", "own", "best"] | None = None

    def __post_init__(self) -> None:
        if self.ranker is not None and not self.active:
            remedy = "give absolute, relative or ceiling too"
            raise BadInput("a ranker without a margin drops nothing", "guard.ranker", remedy)

    @property
    def active(self) -> bool:
        """Whether it drops anything."""
        return self.has_margin or self.ceiling is not None

    @property
    def has_margin(self) -> bool:
        """Whether it compares candidates with a relevant document."""
        return self.absolute is not None or self.relative is not None

    @property
    def per_row(self) -> bool:
        """Whether a mined row's candidates are compared with the positive of that row."""
        return self.active and self.positive in (None, "own")

    def check_per_query(self) -> None:
        """Refuse `positive=own`: candidates would be compared with a row's positive, and lists are made per query."""
        what = "positive=own compares the candidates of a mined row, and here lists are made per query"
        refuse(self.active and self.positive == "own", what, "guard.positive", "choose lowest or best")

    def positive_of(self, scores: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the score that a query's candidates are compared with [q]; +inf without a score.

        Args:
            scores: [q, m], the scores of its relevant documents; −inf for none.
        """
        known = np.isfinite(scores)
        if self.positive == "best":
            chosen = np.where(known, scores, -np.inf).max(axis=1, initial=-np.inf)
        else:
            chosen = np.where(known, scores, np.inf).min(axis=1, initial=np.inf)
        return np.where(known.any(axis=1), chosen, np.inf).astype(np.float32)

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
            dropped: bool [q, k], the documents that were dropped.
            positives: float32 [q], the scores of the relevant documents that they were compared with.
            depth: the number of dropped documents per query that are recorded.
        """
        rows, places = np.nonzero(dropped & (np.cumsum(dropped, axis=1) <= depth))
        scores, best = ranked.scores[rows, places], positives[rows]
        absolute = 0 if self.absolute is None else self.absolute
        reasons = np.where(scores > best, 0, np.where(scores > best - absolute, 1, 2)).astype(np.int8)
        if self.ceiling is not None:  # below every margin, above the ceiling
            within = Guard(absolute=self.absolute, relative=self.relative).below(best)
            reasons[scores <= within] = 3
        documents = ranked.documents[rows, places]
        return GuardedDocuments(
            np.asarray(queries)[rows].astype(np.int32), documents, scores, best, reasons, int(dropped.sum())
        )


def positive_scores(
    function: RetrievalFunction,
    sources: Sources,
    guard: Guard,
    queries: NDArray[np.integer] | None = None,
    positives: NDArray[np.integer] | None = None,
) -> NDArray[np.float32] | None:
    """Return the score of the relevant document that each query's candidates are compared with, +inf if it has none.

    None if the function has no scores of pairs.

    Args:
        guard: chooses among several relevant documents.
        queries: int [q]; None for all.
        positives: int [q], a relevant document of each query; None for all its relevant documents.
    """
    relevant = sources.encoded.judgements.relevant()
    queries = np.arange(len(sources.encoded.queries)) if queries is None else queries
    if positives is not None:
        scores = function.own_scores(sources, queries, np.asarray(positives)[:, None])
        return None if scores is None else guard.positive_of(scores)
    counts = np.diff(relevant.offsets)[queries]
    chosen = np.full(len(queries), np.inf, np.float32)
    # Grouped by the number of relevant documents, so that one query with many does not widen all others.
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        documents = relevant.documents[relevant.offsets[queries[rows]][:, None] + np.arange(count)]
        scores = function.own_scores(sources, queries[rows], documents)
        if scores is None:
            return None
        chosen[rows] = guard.positive_of(scores)
    return chosen


class GuardedLists(NamedTuple):
    """The lists of a function as a run uses them.

    Args:
        lists: one row per query; None if the function ranks during the training. Of a function that masks
            (`RetrievalFunction.masked`) the documents that it must not offer.
        ranks: int32 [q, depth], the rank of each document without the guard, from 1; 0 for no document.
    """

    lists: RankedLists | None
    dropped: GuardedDocuments
    ranks: NDArray[np.int32]


def negatives_lists(
    function: RetrievalFunction,
    sources: Sources,
    guard: Guard,
    asked: NDArray[np.integer] | None = None,
    positives: NDArray[np.integer] | None = None,
) -> GuardedLists:
    """Return a function's lists as a run uses them: without relevant and guarded documents, filled to the full depth.

    Documents that have the text of a relevant one, or are the query itself, are left out too, and each text occurs once
    in a list. A list that falls short of the function's depth is searched again, deeper, until it is full, the function
    finds no more, or `guard.deepest` is reached.

    Args:
        function: the function, not yet prepared.
        guard: decides which documents must not be shown.
        asked: int [q], the queries whose lists are made; None for all.
        positives: int [q], a relevant document of each query that its candidates are compared with; None to choose by
            `guard.positive`.
    """
    queries = np.arange(len(sources.encoded.queries)) if asked is None else np.asarray(asked)
    if (masked := function.masked(sources, queries)) is not None:
        return GuardedLists(*masked, np.zeros(masked[0].documents.shape, np.int32))
    if type(function).rank is RetrievalFunction.rank:
        return GuardedLists(None, GuardedDocuments.joined([]), np.zeros((0, 0), np.int32))
    refuse(
        function.depth < 1,  # nothing else specifies how many documents its lists have
        f"is {function.depth}, and the function ranks",
        f"{type(function).__name__}.depth",
        "set it to the length of the lists",
    )
    if positives is None:
        guard.check_per_query()
    depth = function.longest(sources)
    search = _GuardedSearch(function, sources, guard, RelevantPairs(sources.encoded), depth)
    lists = RankedLists.empty(len(queries), depth)
    ranks = np.zeros(lists.documents.shape, np.int32)
    dropped: list[GuardedDocuments] = []
    first = np.minimum(search.pairs.counts[queries], depth)  # this many more are searched from the start
    left, width = np.arange(len(queries)), depth + int(first.max(initial=0))
    # A ranker is slow: if it drops too much, a list stays short.
    deepest = search.pairs.size if guard.ranker is None else DEEPER * width
    if guard.active and guard.ranker is None:
        width = max(width, FIRST)
    if guard.deepest is not None:
        deepest = min(deepest, guard.deepest)
        width = min(width, deepest)
    while len(left):
        short, step = [], max(1, CELLS // width)
        for start in range(0, len(left), step):
            rows = left[start : start + step]
            own = None if positives is None else positives[rows]
            block = search(queries[rows], own, width, last=width >= deepest)
            done = block.done
            lists.documents[rows[done]], lists.scores[rows[done]] = block.documents[done], block.scores[done]
            ranks[rows[done]] = block.ranks[done]
            dropped.append(block.dropped)
            short.append(rows[~done])
        left, width = np.concatenate(short), min(WIDER * width, max(deepest, width + 1))
    return GuardedLists(lists, GuardedDocuments.joined(dropped), ranks)


@dataclass(frozen=True)
class _Block:
    """The lists of some queries from a search of one width.

    Args:
        documents, scores: [q, depth], cut to the function's depth.
        ranks: int32 [q, depth], ranks without the guard.
        done: bool [q], whether a list is full, or no wider search can fill it.
        dropped: what was dropped from the lists that are done.
    """

    documents: NDArray[np.int32]
    scores: NDArray[np.float32]
    ranks: NDArray[np.int32]
    done: NDArray[np.bool_]
    dropped: GuardedDocuments


@dataclass(frozen=True)
class _GuardedSearch:
    """Searches a function's lists, and drops what must not be shown; `depth` documents of each are kept."""

    function: RetrievalFunction
    sources: Sources
    guard: Guard
    pairs: RelevantPairs
    depth: int

    def __call__(self, queries: NDArray[np.integer], own: NDArray[np.integer] | None, width: int, last: bool) -> _Block:
        """Return the lists of some queries from the first `width` documents; the `last` search ends all of them."""
        guard, depth = self.guard, self.depth
        ranked: object = self.function.rank(self.sources, queries, width)
        if not isinstance(ranked, RankedLists) or len(ranked) != len(queries):
            kind = f"{len(ranked)} lists" if isinstance(ranked, RankedLists) else type(ranked).__name__
            where, remedy = f"{type(self.function).__name__}.rank", "return RankedLists(documents, scores)"
            raise BadInput(f"returned {kind} for {len(queries)} queries", where, f"{remedy} with a row for each query")
        present = ranked.documents >= 0
        candidates = self.pairs.allowed(queries, ranked.documents)
        relevant = self.pairs.encoded.judgements.are_relevant(queries, ranked.documents)
        positives, allowed = np.full(len(queries), np.inf, np.float32), candidates
        judged_by, others = ranked.scores, np.zeros_like(candidates)
        if guard.active:
            positives = self._positives(queries, own)
            if guard.ranker is not None:
                judged_by = guard.ranker.own_scores(self.sources, queries, ranked.documents)
            above = judged_by > guard.below(positives)[:, None]
            allowed = candidates & ~above
            others = relevant & above & (judged_by != positives[:, None])
        kept = np.argsort(~allowed, axis=1, kind="stable")[:, :depth]
        shown = np.take_along_axis(allowed, kept, 1)
        shape = (len(queries), depth)
        documents, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
        ranks, size = np.zeros(shape, np.int32), kept.shape[1]
        documents[:, :size] = np.where(shown, np.take_along_axis(ranked.documents, kept, 1), -1)
        scores[:, :size] = np.where(shown, np.take_along_axis(ranked.scores, kept, 1), -np.inf)
        ranks[:, :size] = np.where(shown, np.take_along_axis(np.cumsum(candidates, axis=1), kept, 1), 0)
        done = (documents >= 0).all(axis=1) | (ranked.counts < width) | last
        # The documents ahead of the last one that the list needed.
        passed = done[:, None] & (np.cumsum(allowed, axis=1) < depth)
        judged = RankedLists(ranked.documents, judged_by)
        dropped = guard.record(queries, judged, candidates & ~allowed & passed, positives, depth)
        repeats = int((present & ~candidates & ~relevant & passed).sum())
        compared = self.pairs.encoded.judgements.answered()[queries]
        unlimited = int((done & compared & np.isposinf(positives)).sum()) if guard.has_margin else 0
        dropped = replace(dropped, relevant=int((others & done[:, None]).sum()), repeats=repeats, unlimited=unlimited)
        return _Block(documents, scores, ranks, done, dropped)

    def _positives(self, queries: NDArray[np.integer], own: NDArray[np.integer] | None) -> NDArray[np.float32]:
        """Return the scores of the relevant documents that the queries' candidates are compared with.

        A margin is refused if the function has no scores of pairs.
        """
        positives = positive_scores(self.guard.ranker or self.function, self.sources, self.guard, queries, own)
        if positives is not None:
            return positives
        if not self.guard.has_margin:
            return np.full(len(queries), np.inf, np.float32)
        raise BadInput(
            f"{type(self.function).__name__} has no scores of relevant documents to compare with",
            "guard",
            "set its margins to null, or choose bm25, tfidf, embedding or run_file",
        )
