"""Computes inner products of sparse vectors by an inverted index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.lazy import scipy

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PRODUCTS = 1 << 22
"""Products that are held at once."""


class SparseIndex:
    """An inverted index: for each term the documents that have it. It is searched exactly.

    Products are added up in float64 in the order of the query's terms, so equal documents have equal products.

    Args:
        vectors: [n, vocabulary].
    """

    def __init__(self, vectors: csr_array) -> None:
        self.size = vectors.shape[0]
        self._postings = vectors.astype(np.float64).T.tocsr()

    def products(self, queries: csr_array) -> NDArray[np.float64]:
        """Return the inner products of queries [q, vocabulary] with all documents, [q, n]."""
        return (queries.astype(np.float64) @ self._postings).toarray()

    def search(self, queries: csr_array, depth: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the largest products of each query; see `pyrite.ranking.index.VectorIndex.search`."""
        count = queries.shape[0]
        documents = np.full((count, depth), -1, np.int32)
        scores = np.full((count, depth), -np.inf, np.float32)
        step = max(1, PRODUCTS // max(1, self.size))
        for start in range(0, count, step):
            products = self.products(queries[start : start + step])
            best = np.argsort(-products, axis=1, kind="stable")[:, :depth]
            rows = slice(start, start + len(best))
            documents[rows, : best.shape[1]] = best
            scores[rows, : best.shape[1]] = np.take_along_axis(products, best, 1)
        return documents, scores

    def scores(self, queries: csr_array, documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the products of queries with documents [q, m]; −inf if the document is −1."""
        products = np.empty(documents.shape, np.float32)
        step = max(1, PRODUCTS // max(1, self.size))
        for start in range(0, len(documents), step):
            rows = documents[start : start + step].astype(np.int64)
            some = self.products(queries[start : start + step])
            products[start : start + step] = np.take_along_axis(some, np.maximum(rows, 0), 1)
        return np.where(documents >= 0, products, -np.inf).astype(np.float32)


def sparse_products(queries: Tensor, documents: Tensor) -> NDArray[np.float32]:
    """Return the inner products of queries [q, vocabulary] with documents [n, vocabulary], float32 [q, n]."""
    rows = [scipy.sparse.csr_array(vectors.detach().cpu().numpy()) for vectors in (queries, documents)]
    return SparseIndex(rows[1]).products(rows[0]).astype(np.float32)
