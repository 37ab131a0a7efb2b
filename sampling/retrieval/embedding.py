"""Finds the documents nearest to a query by the vectors of a fixed bi-encoder."""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.digest import files_of
from pyrite.ranking.embedding import embed
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.precision import Precision
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.rankers.bi_encoder import BiEncoder, PoolingName, SimilarityName
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import check_whole
from pyrite.ranking.sources import Sources
from pyrite.ranking.tokenization import Tokens
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.suppliers import Picker

_log = logging.getLogger(__name__)
CHUNK = 4096
"""Queries per search."""


class Embedding(Ranked):
    """The documents that a pretrained bi-encoder finds first: hard negatives for any ranker, as in STAR (Zhan et al.
    2021).

    The search is exact. The encoder never changes; `function=dense` follows the ranker that is trained.

    Args:
        checkpoint: a folder, or a name at the hub.
        layers: number of the encoder's first layers that are used; None for all.
        max_query: subwords read of a query; None takes the checkpoint's number, or else all that fits.
        max_document: subwords read of a document; None takes the checkpoint's number, or else all that fits.
        pooling: see `pyrite.ranking.rankers.bi_encoder.BiEncoder`; None takes the checkpoint's, or mean.
        similarity: `cosine` or `dot`; None takes the checkpoint's, or cosine.
        tied: whether one tower reads queries and documents; false for a checkpoint with two towers.
        precision: `float32`, `bfloat16` or `float16`.
    """

    independent = True

    @checked
    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        checkpoint: str,
        depth: Annotated[int, Positive] = 100,
        layers: int | None = None,
        max_query: Annotated[int, Positive] | None = None,
        max_document: Annotated[int, Positive] | None = None,
        pooling: PoolingName | None = None,
        similarity: SimilarityName | None = None,
        tied: bool = True,
        precision: Precision = "float32",
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, depth=depth, pick=pick, name=name)
        self.options = {
            "checkpoint": checkpoint, "layers": layers, "max_query": max_query, "max_document": max_document,
            "pooling": pooling, "similarity": similarity, "tied": tied, "precision": precision,
        }  # fmt: skip

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        index, vectors = self._vectors(sources)
        lists = RankedLists.empty(len(queries), depth)
        for start in range(0, len(queries), CHUNK):
            part = slice(start, start + CHUNK)
            lists.documents[part], lists.scores[part] = index.search(vectors[queries[part]], depth)
        return lists

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        index, of_queries = self._vectors(sources)
        return index.scores(of_queries[queries], documents)

    def _vectors(self, sources: Sources) -> tuple[VectorIndex, NDArray[np.float32]]:
        """Return the documents' index and the queries' vectors, times the encoder's scale."""
        return self.read(sources, lambda: self._encoded(sources))

    def _encoded(self, sources: Sources) -> tuple[VectorIndex, NDArray[np.float32]]:
        opened = cache(partial(self._open, sources))  # only if vectors are not kept
        reader = [self.options, files_of(self.options)]

        def vectors(queries: bool) -> NDArray[np.float32]:
            encoder, tokens = opened()
            texts = tokens.queries if queries else tokens.documents
            read = embed(encoder, texts, np.arange(len(texts)), queries=queries)
            return read * np.float32(encoder.scale) if queries else read  # so that products are the encoder's scores

        documents, of_queries = (
            sources.kept_vectors([*reader, part], partial(vectors, part == "scaled queries"))
            for part in ("documents", "scaled queries")
        )
        return VectorIndex.build(documents, IndexOptions()), of_queries

    def _open(self, sources: Sources) -> tuple[BiEncoder, Tokens]:
        """Return the encoder and the texts as it reads them."""
        encoder = BiEncoder(**self.options).start(RankerInputs(torch.Generator().manual_seed(0)))  # type: ignore[arg-type]
        check_whole(encoder, str(self.options["checkpoint"]))
        encoder.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        tokenization = BiEncoder.tokenization(**self.options)
        tokens = tokenization.encode(sources.collection)
        if cut := tokenization.cut(tokens):
            _log.warning("%s: %s", self.options["checkpoint"], cut)
        return encoder, tokens
