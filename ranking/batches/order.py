"""Defines the base of every way of putting examples into batches."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ranking.batch import Batch
from ranking.encoding import EncodedCollection
from ranking.vectors import WordVectors


class BatchOrder(ABC):
    """Says who stands together in a batch: with `function=in_batch` that decides what queries are shown.

    An epoch sees each example once, whatever the order.
    """

    def prepare(self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]) -> None:  # noqa: B027
        """Prepare for a run.

        Args:
            encoded: the collection.
            vectors: of its words.
            queries: int [q], the training queries.
        """

    @abstractmethod
    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The order of an epoch's examples, of which each `size` in a row are a batch, the last one perhaps fewer.

        Args:
            examples: all of an epoch.
            size: of a batch.
            rng: every random draw comes from it.
        """
