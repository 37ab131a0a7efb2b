"""Narrows what selectors see of a function: a window of ranks, and no relevant or repeated documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.ascending import find
from pyrite.ranking.contents import repeated_in_row
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch

MOST_COPIES = 4
"""Largest factor by which more documents are requested because several have the same text."""
FEW = 8
"""How many further documents are requested at first for those that are barred from a whole batch, of which a query's
candidates have few."""
OFFERED = "pick from what the function offers"


class FilteredFunction(RetrievalFunction):
    """A retrieval function without a query's relevant documents and without negatives that it already has.

    Documents with the text of one that is left out are left out too, and no text is offered twice for one query.

    If an answer holds such a document, the function is asked again for as many more as may have to go, so that a draw
    stays uniform over the rest. A function that leaves them out itself is never asked twice.

    Args:
        taken: int32 [b, t], the negatives that other functions have supplied for each query of the batch, −1 for none;
            None if there is no other function.
        barred: ascending contents of documents that no query of the batch may be shown; None for none.
    """

    def __init__(
        self,
        function: RetrievalFunction,
        relevant: RelevantPairs,
        taken: NDArray[np.int32] | None = None,
        barred: NDArray[np.integer] | None = None,
    ) -> None:
        self.function, self.relevant = function, relevant
        self.barred = np.zeros(0, np.int32) if barred is None else barred
        self.taken = np.zeros((0, 0), np.int32) if taken is None else taken
        self._distant: list[NDArray[np.int32]] = []
        self.repeats = lambda: False  # whether its last answer offered a document twice; only computed for a message

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.function.prepare(encoded, lists)

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        candidates = self.function.sample(batch, count, rng)
        return self._allowed(candidates, self.function.sample, batch, count, rng, rng.random)

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        def as_ranked(shape: tuple[int, ...]) -> NDArray[np.float64]:
            return np.broadcast_to(np.arange(shape[1], dtype=float), shape)

        candidates = self.function.top(batch, count, rng)
        return self._allowed(candidates, self.function.top, batch, count, rng, as_ranked)

    def _allowed(
        self,
        candidates: CandidateBatch,
        offer: Callable[[Batch, int, np.random.Generator], CandidateBatch],
        batch: Batch,
        count: int,
        rng: np.random.Generator,
        ordered: Callable[[tuple[int, ...]], NDArray[np.float64]],
    ) -> CandidateBatch:
        """Return candidates with others of `offer`, in the order of `ordered`, for documents that are left out."""
        if fault := fault_of(candidates, len(batch), self.relevant.size):
            raise BadInput(f"{type(self.function).__name__} offered {fault[0]}", "function", fault[1])
        self.repeats = lambda: bool(repeated_in_row(candidates.documents).any())
        out = self.excluded(batch, candidates.documents)
        if not out.any():
            return self._noted(candidates)
        rows = np.flatnonzero(out.any(axis=1))
        more = self._more(batch, rows, count, offer, rng)
        return self._noted(self._replaced(batch, candidates, rows, more, ordered(more.documents.shape), count))

    def excluded(self, batch: Batch, documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which documents [b, m] must not be shown: judged relevant for their query, or already supplied."""
        out = self.relevant.among(batch.queries, documents) | self.repeated(batch, documents)
        return out | self._repeated_text(documents, out)

    def _repeated_text(self, documents: NDArray[np.integer], out: NDArray[np.bool_]) -> NDArray[np.bool_] | np.bool_:
        """Return which of the documents have the text of another one ahead of them in their row that is not `out`."""
        encoded = self.relevant.encoded
        if encoded.content is None:
            return np.False_
        return repeated_in_row(np.where(out, -1, encoded.contents(documents)))

    def repeated(self, batch: Batch, documents: NDArray[np.integer]) -> NDArray[np.bool_] | np.bool_:
        """Return which of the documents [b, m] another function has supplied for their query, or are barred; one False
        if there is none.
        """
        if self.taken.shape[1] and len(batch) != len(self.taken):
            raise ValueError("a selector must ask for the whole batch that it was given")
        return self._left_out(documents, self.taken)

    def _left_out(self, documents: NDArray[np.integer], taken: NDArray[np.int32]) -> NDArray[np.bool_] | np.bool_:
        out = self._again(documents, taken) if self.taken.shape[1] else np.False_
        return out | find(self.barred, self.relevant.encoded.contents(documents))[1] if len(self.barred) else out

    def _again(self, documents: NDArray[np.integer], taken: NDArray[np.int32]) -> NDArray[np.bool_]:
        contents, taken_contents = (self.relevant.encoded.contents(part) for part in (documents, taken))
        return (contents[:, :, None] == taken_contents[:, None, :]).any(axis=2) & (documents >= 0)

    def _more(
        self,
        batch: Batch,
        rows: NDArray[np.intp],
        count: int,
        offer: Callable[[Batch, int, np.random.Generator], CandidateBatch],
        rng: np.random.Generator,
    ) -> CandidateBatch:
        """Return candidates of some rows, of which `count` are left if the function has them.

        Documents that are barred from the whole batch may be many more than a row's candidates have, so that few are
        requested for them at first, and more while a row is short.
        """
        further = min(FEW, len(self.barred))
        while True:
            more = offer(batch.part(rows), self._wanted(batch, rows, count + further), rng)
            if further == len(self.barred):
                return more
            out = self._out(batch, rows, more.documents)
            short = (~out & ~self._repeated_text(more.documents, out)).sum(axis=1) < count
            if not (short & (more.documents >= 0).all(axis=1)).any():
                return more
            further = min(2 * further, len(self.barred))

    def _out(self, batch: Batch, rows: NDArray[np.intp], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents of some rows must not be shown, or are missing."""
        out = self.relevant.among(batch.queries[rows], documents) | (documents < 0)
        return out | self._left_out(documents, self.taken[rows] if self.taken.shape[1] else self.taken)

    def _wanted(self, batch: Batch, rows: NDArray[np.intp], count: int) -> int:
        """Return how many documents to ask for so that `count` are left: more if several have the same text."""
        taken = (self.taken[rows] >= 0).sum(axis=1) if self.taken.shape[1] else 0
        excluded = int((self.relevant.counts[batch.queries[rows]] + taken).max())
        return (count + excluded) * min(self.relevant.most_copies, MOST_COPIES)

    def _replaced(
        self,
        batch: Batch,
        candidates: CandidateBatch,
        rows: NDArray[np.intp],
        more: CandidateBatch,
        order: NDArray[np.float64],
        count: int,
    ) -> CandidateBatch:
        """Return `candidates` with the first `count` allowed documents of `more`, by `order`, in its `rows`."""
        out = self._out(batch, rows, more.documents)
        if more.tier is not None:  # nearer tiers come first; the order counts within a tier
            order = np.argsort(np.argsort(order, axis=1, kind="stable"), axis=1) + more.tier * float(order.shape[1])
        ranked = np.argsort(np.where(out, np.inf, order), axis=1, kind="stable")
        repeated = self._repeated_text(
            np.take_along_axis(more.documents, ranked, 1), np.take_along_axis(out, ranked, 1)
        )
        if repeated.any():
            np.put_along_axis(out, ranked, np.take_along_axis(out, ranked, 1) | repeated, 1)
            ranked = np.argsort(np.where(out, np.inf, order), axis=1, kind="stable")
        best = ranked[:, :count]
        present = ~np.take_along_axis(out, best, 1)
        width = max(candidates.documents.shape[1], best.shape[1])

        def joined(kept: NDArray[Any], new: NDArray[Any], nothing: float, dtype: type[np.generic]) -> NDArray[Any]:
            whole = np.full((len(batch), width), nothing, dtype)
            whole[:, : kept.shape[1]] = kept
            whole[rows] = nothing
            whole[rows, : best.shape[1]] = np.where(present, np.take_along_axis(new, best, 1), nothing)
            return whole

        documents = joined(candidates.documents, more.documents, -1, np.int32)
        scores = joined(candidates.scores, more.scores, -np.inf, np.float32)
        if candidates.tier is None or more.tier is None:
            return CandidateBatch(documents, scores)
        return CandidateBatch(documents, scores, tier=joined(candidates.tier, more.tier, 0, np.int8))

    def _noted(self, candidates: CandidateBatch) -> CandidateBatch:
        """Remember the documents of further tiers, and return the candidates."""
        if candidates.tier is not None:
            self._distant.append(np.where(candidates.tier > 0, candidates.documents, -1))
        return candidates

    def fallback(self, documents: NDArray[np.int32]) -> int:
        """Return how many of the picked documents [b, n] came from outside the function's region."""
        if not self._distant:
            return 0
        return int(np.count_nonzero(self._again(documents, np.concatenate(self._distant, axis=1))))


def fault_of(candidates: object, rows: int, size: int) -> tuple[str, str] | None:
    """Return what is wrong with candidates of the user's class, and what to do about it; None if nothing is.

    Args:
        rows: the number of queries.
        size: the number of documents in the collection.
    """
    if not isinstance(candidates, CandidateBatch):
        return f"{type(candidates).__name__}, not a CandidateBatch", "return CandidateBatch(documents, scores)"
    documents, scores = candidates.documents, candidates.scores
    if not isinstance(documents, np.ndarray) or documents.dtype.kind not in "iu":
        return f"documents as {getattr(documents, 'dtype', type(documents).__name__)}", "give an array of int32"
    if documents.ndim != 2 or len(documents) != rows:
        return f"documents of shape {documents.shape} for {rows} queries", "give a row for each query"
    if np.shape(scores) != documents.shape:
        what = f"scores of shape {np.shape(scores)} for documents of shape {documents.shape}"
        return what, "give nan for a document without a score"
    if documents.size and (documents.min() < -1 or documents.max() >= size):
        return "a document that is not in the collection", "use −1 for none"
    return None


def check_selected(
    selected: CandidateBatch, batch: Batch, function: FilteredFunction, count: int, selector: str, name: str
) -> None:
    """Check what a selector picked against what every selector promises.

    Args:
        selected: the picks, int32 [b, up to `count`], −1 for none.
        selector, name: the selector and the function, for messages.

    Raises:
        BadInput: if it picked too many documents, a relevant one, one twice, one that another function has supplied, or
            one that does not exist.
    """
    source = f"{selector} over {name}"
    if fault := fault_of(selected, len(batch), function.relevant.size):
        raise BadInput(f"{source} picked {fault[0]}", "selector", fault[1])
    documents = selected.documents
    what = remedy = None
    if documents.shape[1] > count:
        what, remedy = f"{documents.shape[1]} documents per query instead of {count}", "return at most `count` columns"
    elif function.relevant.among(batch.queries, documents).any():
        what, remedy = "a document that is judged relevant for its query, or has the text of one", OFFERED
    elif repeated_in_row(function.relevant.encoded.contents(documents)).any():
        if function.repeats():  # the selector is not to blame
            what, remedy = "a document twice for one query", "draw distinct documents, and use −1 if there are too few"
            raise BadInput(f"{type(function.function).__name__} offered {what}", "function", remedy)
        what, remedy = "a document twice for one query, or another one with its text", "use −1 if there are too few"
    elif function.repeated(batch, documents).any():
        what, remedy = "a document that another function has supplied", OFFERED
    refuse(what, f"{source} picked {what}", "selector", remedy)


class WindowedFunction(RetrievalFunction):
    """A retrieval function of which only the ranks `first` to `last` are visible: a policy's hardness window.

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
        return window.take(np.argsort(keys, axis=1, kind="stable")[:, :count])

    def _cut(self, head: CandidateBatch) -> CandidateBatch:
        tier = None if head.tier is None else head.tier[:, self.first - 1 :]
        return CandidateBatch(head.documents[:, self.first - 1 :], head.scores[:, self.first - 1 :], tier=tier)


def check_window(window: object) -> tuple[int, int]:
    """Return the first and the last rank of a window.

    Raises:
        BadInput: if they are not two whole numbers from 1 up, in order.
    """
    ranks = list(window) if isinstance(window, list | tuple) else []
    refuse(
        len(ranks) != 2 or any(type(rank) is not int for rank in ranks) or not 1 <= ranks[0] <= ranks[1],
        f"the window is {window!r}",
        "policy.window",
        "give the first rank and the last, as [1,20]",
    )
    return ranks[0], ranks[1]
