"""Scores documents by retrieval models over term counts, from BM25 to latent semantics.

BM25's variants are not bm25s's: its topics are bags of words, and those of pseudo-relevance feedback have weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pyrite.pooling.systems.term_index import Scores, TermIndex


def bm25(index: TermIndex, k1: float, b: float) -> Scores:
    """BM25 in Lucene's form (Kamphuis et al. 2020, table 1)."""
    idf = np.log(1 + (index.size - index.df + 0.5) / (index.df + 0.5))
    return index.sums(idf * index.tf / (index.tf + k1 * _longer(index, b)))


def _longer(index: TermIndex, b: float) -> NDArray[np.float64]:
    return 1 - b + b * index.length / index.mean_length


def dirichlet(index: TermIndex, mu: float) -> Scores:
    """Query likelihood with Dirichlet smoothing, ln P(q|d) minus a constant that is the same for all documents (Zhai
    and Lafferty 2004).
    """
    background = index.cf / index.lengths.sum()
    scores = index.sums(np.log1p(index.tf / (mu * background)))
    return scores + index.topics.sum(1)[:, None] * np.log(mu / (mu + index.lengths))


def relevance_model(index: TermIndex, mu: float, feedback: int = 10, terms: int = 20, share: float = 0.5) -> TermIndex:
    """RM3 (Abdul-Jaleel et al. 2004): the index with topics expanded by a number of terms from their best documents,
    which count by query likelihood. The original topic keeps a share.
    """
    scores = dirichlet(index, mu)
    likelihoods = np.where(_best(scores, feedback), np.exp(scores - scores.max(1, keepdims=True)), 0)
    language = index.weighted(index.tf / index.length)
    expansion = _heaviest(csr_array(likelihoods) @ language, terms)
    return replace(index, topics=csr_array(share * _shares(index.topics) + (1 - share) * _shares(expansion)))


def latent_semantics(index: TermIndex, dimensions: int, rng: np.random.Generator) -> tuple[Scores, Scores]:
    """Compute documents and topics, [documents, dimensions] and [topics, dimensions], by their loadings on the first
    singular vectors of tf·idf (Deerwester et al. 1990), the strongest first.

    The vectors are found by two rounds of random subspace iteration (Halko et al. 2011, algorithm 4.4).
    """
    documents = _document_vectors(index)
    basis = rng.standard_normal((documents.shape[1], dimensions + 10))
    for _ in range(2):
        basis = np.linalg.qr(documents.T @ (documents @ basis))[0]
    loadings = documents @ basis
    turned = np.linalg.eigh(loadings.T @ loadings)[1][:, ::-1][:, :dimensions]
    return loadings @ turned, _topic_vectors(index) @ basis @ turned


def dense_cosine(documents: Scores, topics: Scores) -> Scores:
    """Cosines of vectors, [documents, dimensions] and [topics, dimensions]; −inf for a topic that is all zero."""
    lengths = np.linalg.norm(documents, axis=1), np.linalg.norm(topics, axis=1)
    cosines = (topics / np.maximum(lengths[1], 1e-12)[:, None]) @ (documents / np.maximum(lengths[0], 1e-12)[:, None]).T
    return np.where(lengths[1][:, None] > 0, cosines, -np.inf)


def _idf(index: TermIndex) -> NDArray[np.float64]:
    """Return the idf [terms]; 0 for those that no document holds."""
    df = np.bincount(index.documents.indices, minlength=index.documents.shape[1])
    return np.where(df > 0, np.log((index.size + 1) / np.maximum(df, 1)), 0.0)


def _document_vectors(index: TermIndex) -> csr_array:
    return _unit(index.weighted((1 + np.log(index.tf)) * _idf(index)[index.documents.indices]))


def _topic_vectors(index: TermIndex) -> csr_array:
    topics = index.topics.copy()
    topics.data = (1 + np.log(topics.data)) * _idf(index)[topics.indices]
    return _unit(topics)


def _unit(matrix: csr_array) -> csr_array:
    """Scale each row to length 1."""
    return _divided(matrix, np.sqrt((matrix * matrix).sum(1)))


def _shares(matrix: csr_array) -> csr_array:
    """Scale each row to sum 1."""
    return _divided(matrix, matrix.sum(1))


def _divided(matrix: csr_array, by: NDArray[np.float64]) -> csr_array:
    """Divide rows; rows of 0 stay. The values keep their positions, as postings must."""
    values = matrix.data / np.repeat(np.maximum(by, 1e-12), np.diff(matrix.indptr))
    return csr_array((values, matrix.indices, matrix.indptr), matrix.shape)


def _best(scores: Scores, count: int) -> NDArray[np.bool_]:
    """Return the `count` best documents of each topic; the earlier one of equal ones."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    best = np.zeros(scores.shape, bool)
    np.put_along_axis(best, order, True, 1)
    return best


def _heaviest(matrix: csr_array, count: int) -> csr_array:
    """Keep the `count` largest values of each row."""
    dense = matrix.toarray()
    return csr_array(np.where(_best(dense, count), dense, 0))
