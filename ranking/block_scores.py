"""Scores the documents of a batch's queries with a gradient. Each text is read once, if requested in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.dropout import seeded_dropout
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.ranker import Ranker, joined
from pyrite.ranking.texts import Texts
from pyrite.ranking.vector_memory import VectorMemory

DEDUPLICATE_BELOW = 0.5
"""The share of distinct documents in a batch up to which each is read once."""


@checked
@dataclass(frozen=True)
class BlockScores:
    """The scoring of blocks during training.

    Args:
        chunk: the number of texts that are read together (GradCache, Gao et al. 2021): first without keeping what
            their gradient needs, and again, chunk by chunk, when the loss's gradient with respect to their vectors is
            known. The gradient is the same, the memory that of one chunk. None reads all together.
        memory: vectors of earlier batches that are used instead of reading. None for none.

    Raises:
        BadInput: if the ranker reads query and document together, which can't be done in chunks.
    """

    ranker: Ranker
    encoded: EncodedCollection
    chunk: Annotated[int, AtLeast(1)] | None = None
    memory: VectorMemory | None = None

    def __post_init__(self) -> None:
        name = type(self.ranker).__name__
        remedy = "set training.chunk=null; training.accumulate=4 takes less memory too"
        refuse(
            self.chunk is not None and not self.ranker.reads_apart,
            f"{name} reads query and document together, not in chunks",
            "training.chunk",
            remedy,
        )

    def __call__(
        self,
        queries: NDArray[np.integer],
        documents: NDArray[np.integer],
        generator: torch.Generator,
        dimensions: Sequence[int] | None = None,
        kept: list[Tensor] | None = None,
    ) -> Tensor:
        """Return scores [b, m], or [1 + dimensions, b, m].

        Args:
            queries: int [b].
            documents: int [b, m]; the score of −1 is arbitrary.
            generator: the source of dropout, chunk by chunk.
            dimensions: numbers of first dimensions that are scored too, see
                `pyrite.ranking.objectives.objective.Scorer`.
            kept: receives the representations of the queries and of the first document of each, for `within`.

        Raises:
            BadInput: if the ranker has no vectors, or not more dimensions.
        """
        ranker = self.ranker
        texts, block = self.encoded.queries.take(queries), np.maximum(documents, 0)
        distinct, indices = np.unique(block, return_inverse=True)
        apart = self.chunk is not None or self.memory is not None
        plain = not apart and dimensions is None and kept is None
        if plain and len(distinct) > DEDUPLICATE_BELOW * block.size:
            return ranker(texts, self.encoded.documents.take(block.ravel()))
        where = torch.from_numpy(indices.reshape(block.shape))
        if plain:
            return ranker(texts, self.encoded.documents.take(distinct), where)
        if apart:
            of_queries = self._read(ranker, ranker.represent_queries, texts, generator)
            of_documents = self._represented(ranker, distinct, np.isin(distinct, documents), generator)
        else:
            of_queries, of_documents = ranker.represent(texts, self.encoded.documents.take(distinct))
        if kept is not None:
            kept[:] = of_queries, of_documents[where[:, 0].to(of_documents.device)]
        scores = ranker.compare(of_queries, of_documents, where)
        return scores if dimensions is None else _nested(ranker, scores, of_queries, of_documents, where, dimensions)

    def within(self, kept: Sequence[Tensor], dimension: int | None = None) -> Tensor:
        """Return scores among the texts of a batch [3, b, b], see `pyrite.ranking.objectives.block.Block.batch_scores`.

        Args:
            kept: vectors [b, dimension] of queries and positives by a `DenseRanker`.
            dimension: the number of first dimensions that are compared. None compares whole vectors.
        """
        ranker = self.ranker
        assert isinstance(ranker, DenseRanker), "checked when the training began"
        vectors = kept if dimension is None else [ranker.shortened(whole, dimension) for whole in kept]
        queries, positives = vectors
        pairs = ((queries, positives), (queries, queries), (positives, positives))
        return torch.stack([ranker.scale * (left @ right.mT) for left, right in pairs])

    def _represented(
        self, ranker: Ranker, documents: NDArray[np.integer], shown: NDArray[np.bool_], generator: torch.Generator
    ) -> Tensor:
        """Return representations of distinct documents, read or remembered; of one that is not `shown` any will do."""
        known = np.zeros(len(documents), bool) if self.memory is None else self.memory.among(documents)
        fresh = documents[~known]
        vectors = self._read(ranker, ranker.represent_documents, self.encoded.documents.take(fresh), generator)
        if self.memory is None:
            return vectors
        noted = shown[~known]
        self.memory.note(fresh[noted], vectors[torch.from_numpy(noted).to(vectors.device)])
        if not known.any():
            return vectors
        order = np.argsort(np.concatenate([np.flatnonzero(~known), np.flatnonzero(known)]))
        together = torch.cat([vectors, self.memory.vectors(documents[known]).to(vectors)])
        return together[torch.from_numpy(order).to(vectors.device)]

    def _read(
        self, ranker: Ranker, represent: Callable[[Texts], Tensor], texts: Texts, generator: torch.Generator
    ) -> Tensor:
        """Return the texts' representations, read chunk by chunk, texts of similar length together."""
        if self.chunk is None or not len(texts):
            return represent(texts)
        order = np.argsort(texts.lengths, kind="stable")
        parts = []
        for start in range(0, len(order), self.chunk):
            # Dropout must be the same when the chunk is read again.
            seed = int(torch.randint(2**62, (), generator=generator))

            def read(some: Texts, seed: int = seed) -> Tensor:
                with seeded_dropout(ranker, torch.Generator().manual_seed(seed)):
                    return represent(some)

            some = texts.take(order[start : start + self.chunk])
            parts.append(checkpoint(read, some, use_reentrant=False, preserve_rng_state=False))
        back = torch.from_numpy(np.argsort(order, kind="stable"))
        return joined(parts)[back.to(parts[0].device)]


def _nested(
    ranker: Ranker, scores: Tensor, queries: Tensor, documents: Tensor, where: Tensor, dimensions: Sequence[int]
) -> Tensor:
    """Return scores of whole vectors [b, m], and then of their first dimensions, [1 + dimensions, b, m]."""
    if not isinstance(ranker, DenseRanker) or ranker.sparse:
        what = f"{type(ranker).__name__} has no vectors that could be shorter"
        raise BadInput(what, "objective=matryoshka", "choose ranker=bi_encoder, static or dssm")
    most = max(dimensions, default=0)
    what = f"{most} is not below the {ranker.dimension} dimensions of the ranker"
    refuse(most >= ranker.dimension, what, "objective.dimensions", "choose smaller numbers")
    shorter = [
        ranker.compare(ranker.shortened(queries, number), ranker.shortened(documents, number), where)
        for number in dimensions
    ]
    return torch.stack([scores, *shorter])
