"""Defines the base of rankers whose vectors an index can search."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ranking.rankers.ranker import Ranker

WHOLE = 2
"""Distinct documents for each place of a query, up to which every query is compared with all of them."""


class DenseRanker(Ranker):
    """A text is one vector, a score `scale` × the inner product of two: what an index can search.

    A subclass writes `represent_queries` and `represent_documents`, float32 [texts, dimension] each, already of unit
    length where it scores by cosine. Both are given thousands of texts at once and bound their own memory.

    Args:
        scale: above 0, so that the order of the inner products is the order of the scores.
    """

    scale: float = 1.0
    fixed_documents: bool = False
    """Whether the vectors of documents stay as they are while it learns."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Length of a text's vector."""

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        """`scale` × inner product of queries [b, 1, dimension] and documents [b, m, dimension]. Shape [b, m]."""
        return self.scale * torch.matmul(documents, queries.mT)[..., 0]

    def compare(self, queries: Tensor, documents: Tensor, places: Tensor) -> Tensor:
        if len(documents) > WHOLE * places.shape[1]:
            return super().compare(queries, documents, places)
        # Few documents at many places, as of in-batch negatives: all products at once, and no vector copied.
        return self.scale * (queries @ documents.mT).gather(1, places.to(queries.device))
