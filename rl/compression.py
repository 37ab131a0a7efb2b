"""Compresses queries and relevant documents to one vector each (φ), once for all copies of the environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.training import Batch
from pyrite.ranking.vectors import WordVectors, directions


@dataclass(frozen=True)
class Compressed:
    """φ of every query and of every relevant document: unit vectors [n, d], or zero if no word has a vector.

    See Cohen et al. 2019, section 3.1.2.
    """

    queries: NDArray[np.float32]
    documents: NDArray[np.float32]
    relevant: NDArray[np.int32]
    """The document of each row of `documents`, ascending."""

    @property
    def dimension(self) -> int:
        """d, the dimension of the word vectors."""
        return self.queries.shape[1]

    def matrix(self, batch: Batch, pairs: int) -> NDArray[np.float32]:
        """Return B: the rows φ(q_1), φ(d_1), φ(q_2), φ(d_2), … of a batch, followed by zeros. Shape [2·pairs, d]."""
        rows = np.zeros((2 * pairs, self.dimension), np.float32)
        rows[0 : 2 * len(batch) : 2] = self.queries[batch.queries]
        rows[1 : 2 * len(batch) : 2] = self.documents[np.searchsorted(self.relevant, batch.positives)]
        return rows


def compress(encoded: EncodedCollection, vectors: WordVectors, weighting: str) -> Compressed:
    """Return φ(w_1 … w_n) = Σ weight(w_i)·f_e(w_i), scaled to length 1 so that long documents are not larger than short
    ones.

    Args:
        weighting: `tf` counts every occurrence as 1, `idf` as the word's idf.
    """
    weights = encoded.idf if weighting == "idf" else np.ones_like(encoded.idf)
    relevant = np.unique(encoded.judgements.relevant().documents)
    return Compressed(
        directions(encoded.queries, vectors.table, weights),
        directions(encoded.documents.take(relevant), vectors.table, weights),
        relevant,
    )
