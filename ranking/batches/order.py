"""Defines the base of all orders of examples, and the random order."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.batch import Batch
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.part import Part
from pyrite.ranking.vectors import WordVectors


class BatchOrder(Part):
    """The order of an epoch's examples, and so the queries that share a batch and its in-batch negatives.

    An epoch sees each example once, in any order.
    """

    def prepare(self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]) -> None:
        """Prepare for a run.

        Args:
            queries: int [q], the training queries.
        """

    @abstractmethod
    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the order of an epoch's examples. Each `size` in a row are a batch; the last may have fewer."""


class Shuffled(BatchOrder):
    """A random order in each epoch."""

    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.permutation(len(examples))
