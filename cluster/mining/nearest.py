"""Ranks documents by the vectors of a fixed ranker: what `function=dense` is where nothing is trained."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.embedding import embed
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.index import IndexOptions, VectorIndex
from ranking.ranked_lists import RankedLists
from ranking.rankers.dense import DenseRanker
from ranking.rankers.ranker import Ranker
from ranking.sources import Sources
from sampling.retrieval.ranked import Ranked


class Nearest(Ranked):
    """The nearest documents by a ranker's vectors.

    Args:
        ranker: fixed.
        encoded: the collection as it reads it.
        depth: length of a list.
        index: how vectors are kept and searched.

    Raises:
        BadInput: where the ranker has no vectors.
    """

    def __init__(self, ranker: Ranker, encoded: EncodedCollection, depth: int, index: IndexOptions) -> None:
        super().__init__(depth)
        if not isinstance(ranker, DenseRanker):
            what = f"{type(ranker).__name__} gives texts no vectors that an index could search"
            raise BadInput(what, "function=dense", "name a bi-encoder or a static ranker by checkpoint=")
        self.ranker, self.encoded = ranker, encoded
        documents = embed(ranker, encoded.documents, np.arange(len(encoded.documents)))
        self.index = VectorIndex.build(documents, index)

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        documents, products = self.index.search(self._vectors(queries), depth)
        return RankedLists(documents, products * np.float32(self.ranker.scale))

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        return self.index.scores(self._vectors(queries), documents) * np.float32(self.ranker.scale)

    def _vectors(self, queries: NDArray[np.integer]) -> NDArray[np.float32]:
        return embed(self.ranker, self.encoded.queries, np.asarray(queries), queries=True)
