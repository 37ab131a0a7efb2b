"""Offers the positives of the other queries of a batch, and optionally their mined negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists, rectangle
from pyrite.ranking.sources import Sources
from pyrite.sampling.guard import CELLS, Guard
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch


LONGEST = 100
"""Most documents per query that a guide masks, unless the guard's `deepest` says otherwise."""


class InBatch(RetrievalFunction):
    """In-batch negatives: each query is shown positives of other queries of its batch (Karpukhin et al. 2020).

    They cost little, since a ranker reads a document once for the whole batch, and they are drawn as often as they are
    relevant somewhere. A document that is judged relevant for the query, or has the same text as one that is, is left
    out. A batch of `training.batch_size` pairs supplies at most one document less than its size. If several workers
    train the ranker, the batch is that of all workers.

    A guide masks false negatives: a document that it scores above the guard's limit is never offered to that query
    (GISTEmbed; Solatorio 2024, equations 5 to 8, with `guard.relative=0`). The guide reads each text once, before
    training. `objective.margin` does the same by the ranker's scores.

    Args:
        hard: whether the documents that other functions have mined for the other queries are offered as well:
            `function=[in_batch,bm25]` then shows a query BM25's documents of all queries of the batch (Karpukhin et al.
            2020, section 5.2). They are in the batch already, so a ranker reads no more documents.
        guard: the guard, with the guide as its `ranker`: a bi-encoder or a static ranker. `deepest` is the most
            documents that it masks per query, by default 100, those with the highest scores.
    """

    independent = True

    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        hard: bool = False,
        guard: Guard = Guard(),  # noqa: B008
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, pick=pick, name=name)
        self.hard = self.reads_mined = hard
        self.guard = guard
        if guard.active and guard.ranker is None:
            remedy = "name a guide (guard.ranker=FOLDER), or use objective.margin, which reads the ranker's scores"
            raise BadInput("documents of a batch have no scores to compare", "function.in_batch.guard", remedy)
        self._guide: tuple[Sources, NDArray[np.integer], NDArray[np.float32], NDArray[np.float32]] | None = None

    def masked(self, sources: Sources, queries: NDArray[np.integer]) -> tuple[RankedLists, GuardedDocuments] | None:
        if not self.guard.active:
            return None
        self.guard.check_per_query()
        documents, of_queries, of_documents = self._vectors(sources)
        relevant, deepest = sources.encoded.judgements.relevant(), self.guard.deepest or LONGEST
        lists, dropped = RankedLists.empty(len(queries), deepest), []
        step = max(1, CELLS // max(len(documents), 1))
        for start in range(0, len(queries), step):
            part = np.asarray(queries[start : start + step])
            # In float64, so that equal texts have equal scores in any column.
            products = of_queries[part].astype(np.float64) @ of_documents.T.astype(np.float64)
            scores: NDArray[np.float32] = products.astype(np.float32)
            positives = rectangle(relevant.documents, relevant.offsets, part, -1)
            columns = np.where(positives >= 0, np.searchsorted(documents, positives), 0)
            own = np.where(positives >= 0, np.take_along_axis(scores, columns, 1), -np.inf)
            compared = self.guard.positive_of(own)
            ranked = RankedLists(np.broadcast_to(documents.astype(np.int32), scores.shape), scores)
            above = scores > self.guard.below(compared)[:, None]
            above &= ~sources.encoded.judgements.are_relevant(part, ranked.documents)
            dropped.append(self.guard.record(part, ranked, above, compared, deepest))
            best_first(ranked, above, lists, start)
        return lists.head(int(lists.counts.max(initial=0))), GuardedDocuments.joined(dropped)

    def _vectors(self, sources: Sources) -> tuple[NDArray[np.integer], NDArray[np.float32], NDArray[np.float32]]:
        """Return the documents that a batch can have, and the guide's vectors of all queries and of these documents."""
        if self._guide is None or self._guide[0] is not sources:
            relevant = np.unique(sources.encoded.judgements.relevant().documents)
            documents = np.arange(len(sources.encoded.documents)) if self.hard else relevant
            self._guide = (sources, documents, *self.guard.ranker.vectors(sources, documents))
        return self._guide[1:]

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.encoded, self.pairs, self.masks = encoded, RelevantPairs(encoded), lists

    def supply(self, batch_size: int, mined: int) -> int | None:
        return (batch_size - 1) * (1 + (mined if self.hard else 0))

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        whole = batch.whole or batch
        others = whole.positives
        if self.hard and whole.mined is not None:
            others = np.concatenate([others, whole.mined[whole.mined >= 0]])
        return self.offer(batch, np.unique(others), count, rng)

    def offer(self, batch: Batch, others: NDArray[np.integer], count: int, rng: np.random.Generator) -> CandidateBatch:
        """Draw `count` of the documents `others` for each query, without those that have the text of a relevant one."""
        contents = self.encoded.contents(others)
        out = contents == self.encoded.contents(batch.positives)[:, None]
        if not self.pairs.only_judged:
            # Documents that are judged relevant themselves are left out for every function (`FilteredFunction`).
            out |= self.pairs.unjudged_among(batch.queries, np.broadcast_to(others, out.shape))
        if self.hard and batch.mined is not None:
            for column in self.encoded.contents(batch.mined).T:  # there are few columns
                out |= contents == column[:, None]
        if self.masks is not None:
            masks = self.masks.documents[batch.queries]
            columns = np.minimum(np.searchsorted(others, masks), max(len(others) - 1, 0))
            rows, hits = np.nonzero(others[columns] == masks) if len(others) else (np.zeros(0, int),) * 2
            out[rows, columns[rows, hits]] = True
        keys = np.where(out, np.inf, rng.random(out.shape))
        order = np.argsort(keys, axis=1, kind="stable")[:, :count]
        present = np.isfinite(np.take_along_axis(keys, order, 1))
        documents = np.where(present, others[order], -1).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.sample(batch, count, rng)  # they have no order


def best_first(ranked: RankedLists, kept: NDArray[np.bool_], lists: RankedLists, start: int) -> None:
    """Write the documents of `ranked` that are `kept` into the rows of `lists` from `start` on, best first.

    Equal scores keep the order of the documents. Those beyond the width of `lists` are left out.
    """
    rows, columns = np.nonzero(kept)
    scores = ranked.scores[rows, columns]
    order = np.lexsort((columns, -scores, rows))
    firsts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    ranks = np.arange(len(rows)) - firsts[rows]
    inside = ranks < lists.documents.shape[1]
    places = start + rows[inside], ranks[inside]
    lists.documents[places] = ranked.documents[rows, columns[order]][inside]
    lists.scores[places] = scores[order][inside]
