"""Ranks documents by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ranking.bm25 import Bm25Index, Bm25Options
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.function import CandidateBatch
from sampling.retrieval.ranked import Ranked, candidates_at, draw_positions

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class Bm25Function(Ranked):
    """The documents that BM25 ranks first: hard negatives for a ranker that re-ranks BM25.

    Args:
        depth: length of a list.
        k1, b, stemming, stop_words: see `ranking.bm25.Bm25Options`.
        shards: ranges of documents, each searched by an actor of its own on Ray. With several, no lists are made
            before the training: those of a batch are asked for while the ranker learns from the one before. Where a
            guard, a teacher or an agent wants lists before, they are made from one shard after the other. What is
            found does not depend on it.
        on_lost_shard: `wait` until a shard that died is back, or `skip`: go on without its documents meanwhile, which
            no run that is to be repeated may do.

    Raises:
        BadInput: where an option makes no sense.
    """

    independent = True

    def __init__(
        self,
        depth: int = 100,
        k1: float = 0.9,
        b: float = 0.4,
        stemming: str | None = "english",
        stop_words: bool = True,
        shards: int = 1,
        on_lost_shard: Literal["wait", "skip"] = "wait",
    ) -> None:
        super().__init__(depth)
        if shards < 1:
            raise BadInput(f"shards is {shards}", "function.bm25.shards", "choose a whole number from 1 up")
        if on_lost_shard not in ("wait", "skip"):
            what = f"on_lost_shard is {on_lost_shard!r}"
            raise BadInput(what, "function.bm25.on_lost_shard", "choose wait or skip")
        self.options, self.shards = Bm25Options(k1, b, stemming, stop_words), shards
        self.on_lost_shard = on_lost_shard
        self._served: Bm25Index | None = None
        self._pairs: RelevantPairs | None = None

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        if lists is not None or self.shards == 1:
            super().prepare(encoded, lists)
            return
        self._pairs = RelevantPairs(encoded.judgements, len(encoded.documents))

    def attach_index(self, index: Bm25Index) -> None:
        """Ask this index for the lists of each batch."""
        self._served = index

    def start_run(self, training: RankerTraining) -> None:
        if self._pairs is not None and self._served is None:
            remedy = "leave it 1 here: only the runs of pyrite train and pyrite study have actors that serve it"
            raise BadInput(f"shards is {self.shards}, and nothing serves them", "function.bm25.shards", remedy)

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        if self._served is None:
            return super().sample(batch, count, rng)
        lists = self._asked(batch.queries)
        return candidates_at(lists, draw_positions(lists.counts, count, rng))

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        if self._served is None:
            return super().top(batch, count, rng)
        return candidates_at(self._asked(batch.queries), np.broadcast_to(np.arange(count), (len(batch), count)))

    def _asked(self, queries: NDArray[np.integer]) -> RankedLists:
        """The first `depth` documents of each query that are not relevant."""
        assert self._served is not None
        assert self._pairs is not None
        width = self.depth + int(self._pairs.counts[queries].max(initial=0))
        found = self._served.search(queries, width)[0]
        kept = found.keep(~self._pairs.among(queries, found.documents))
        return RankedLists(kept.documents[:, : self.depth], kept.scores[:, : self.depth])

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        return sources.bm25(self.options, self.shards).search(queries, depth)[0]

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        scores = sources.bm25(self.options, self.shards).search(queries, 0, documents)[1]
        return np.where(scores > 0, scores, -np.inf).astype(np.float32)  # without a common term it finds nothing
