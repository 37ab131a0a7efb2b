"""Defines the base of rankers whose vectors an index can search."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.texts import Texts

WHOLE = 2
"""The number of distinct documents per column up to which every query is compared with all of them."""


class DenseRanker(Ranker):
    """A ranker with one vector per text, whose scores are `scale` × an inner product: an index can search it.

    A subclass defines `represent_queries` and `represent_documents`, which return float32 [texts, dimension], already
    of unit length if it scores by cosine. Both receive thousands of texts at once and limit their memory.

    Attributes:
        scale: a factor above 0, so that the order of inner products is the order of scores.
    """

    scale: float = 1.0
    sparse: bool = False
    """Whether most numbers of a vector are 0."""
    unit: bool = False
    """Whether vectors have unit length."""
    fixed_documents: bool = False
    """Whether the vectors of documents stay the same during training."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length of a text's vector."""

    def shortened(self, vectors: Tensor, dimension: int) -> Tensor:
        """Return the first numbers of vectors [n, dimension], as the vectors of a ranker with fewer dimensions."""
        first = vectors[:, :dimension]
        return F.normalize(first, dim=1) if self.unit else first

    def represent_together(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        """Represent both in one pass, if they are read alike: one gradient of a large table instead of two."""
        vectors = self.represent_queries(queries.followed_by(documents))
        return vectors[: len(queries)], vectors[len(queries) :]

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Return `scale` × inner products of queries [b, 1, dimension] and documents [b, m, dimension]: [b, m]."""
        return self.scale * torch.matmul(documents, queries.mT)[..., 0]

    def compare(self, queries: Tensor, documents: Tensor, places: Tensor) -> Tensor:
        if len(documents) > WHOLE * places.shape[1]:
            return super().compare(queries, documents, places)
        # Few documents in many columns, as for in-batch negatives: all products at once, and no vector copied.
        return self.scale * (queries @ documents.mT).gather(1, places.to(queries.device))
