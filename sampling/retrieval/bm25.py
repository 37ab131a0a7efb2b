"""Ranks documents by BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bm25 import Bm25Index, Bm25Options
from pyrite.ranking.bounds import Fraction, NonNegative, Positive, checked
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.ranked import ListRows, Ranked
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining


class BM25(Ranked):
    """The documents that BM25 ranks first: hard negatives for a ranker that re-ranks BM25.

    Args:
        k1: how quickly repeated occurrences of a word stop counting (see `pyrite.ranking.bm25.Bm25Options`).
        b: how much long documents are discounted, 0 to 1.
        stemming: language of the stemmer, e.g. `english`; None for no stemming.
        stop_words: whether English stop words are dropped.
        shards: number of ranges of documents, each searched by a separate actor on Ray. With several, no lists are made
            before the training: those of a batch are requested while the ranker learns from the previous batch. If a
            guard, a teacher or an agent needs lists before, they are made one shard after the other. The lists do not
            depend on the number of shards.
        on_lost_shard: `wait` until a shard that died is back, or `skip` its documents until then, which makes a run
            unrepeatable.
    """

    independent = True

    @checked
    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        depth: Annotated[int, Positive] = 100,
        k1: Annotated[float, NonNegative] = 0.9,
        b: Annotated[float, Fraction] = 0.4,
        stemming: str | None = "english",
        stop_words: bool = True,
        shards: Annotated[int, Positive] = 1,
        on_lost_shard: Literal["wait", "skip"] = "wait",
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, depth=depth, pick=pick, name=name)
        self.options, self.shards = Bm25Options(k1, b, stemming, stop_words), shards
        self.on_lost_shard = on_lost_shard
        self._served: Bm25Index | None = None
        self._pairs: RelevantPairs | None = None

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        if lists is not None or self.shards == 1:
            super().prepare(encoded, lists)
            return
        self._pairs = RelevantPairs(encoded)

    def attach_index(self, index: Bm25Index) -> None:
        """Use this index for the lists of each batch."""
        self._served = index

    def start_run(self, training: RankerTraining) -> None:
        if self._pairs is not None and self._served is None:
            remedy = "leave it 1 here: only the runs of pyrite train and pyrite study have actors that serve it"
            raise BadInput(f"shards is {self.shards}, and nothing serves them", "function.bm25.shards", remedy)

    def lists_of(self, queries: NDArray[np.integer]) -> ListRows:
        if self._served is None:
            return super().lists_of(queries)
        assert self._pairs is not None
        width = self.depth + int(self._pairs.counts[queries].max(initial=0))
        while True:  # as `negatives_lists` does: each text once, until the lists are full
            lists = self._served.search(queries, width)[0]
            kept = lists.keep(self._pairs.allowed(queries, lists.documents))
            if not ((kept.counts < self.depth) & (lists.counts >= width)).any():
                return ListRows.of(kept.head(self.depth))
            width *= 2

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        return sources.bm25(self.options, self.shards).search(queries, depth)[0]

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        scores = sources.bm25(self.options, self.shards).search(queries, 0, documents)[1]
        return np.where(scores > 0, scores, -np.inf).astype(np.float32)  # −inf without a common term
