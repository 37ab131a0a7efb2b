"""Scores documents by retrieval models over term counts, from coordination level to latent semantics.

BM25's variants are not bm25s's: its topics are bags of words, and those of pseudo-relevance feedback have weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pyrite.pooling.systems.term_index import Scores, TermIndex


def bm25(index: TermIndex, k1: float, b: float) -> Scores:
    """BM25 in Lucene's form (Kamphuis et al. 2020, table 1)."""
    idf = np.log(1 + (index.size - index.df + 0.5) / (index.df + 0.5))
    return index.sums(idf * index.tf / (index.tf + k1 * _longer(index, b)))


def bm25_plus(index: TermIndex, k1: float, b: float, delta: float = 1.0) -> Scores:
    """BM25+, in which a term that occurs at all adds at least delta (Lv and Zhai 2011a)."""
    idf = np.log((index.size + 1) / index.df)
    return index.sums(idf * ((k1 + 1) * index.tf / (index.tf + k1 * _longer(index, b)) + delta))


def bm25_l(index: TermIndex, k1: float, b: float, delta: float = 0.5) -> Scores:
    """BM25L, which penalises long documents less (Lv and Zhai 2011b)."""
    idf = np.log((index.size + 1) / (index.df + 0.5))
    shifted = index.tf / _longer(index, b) + delta
    return index.sums(idf * (k1 + 1) * shifted / (k1 + shifted))


def _longer(index: TermIndex, b: float) -> NDArray[np.float64]:
    return 1 - b + b * index.length / index.mean_length


def dirichlet(index: TermIndex, mu: float) -> Scores:
    """Query likelihood with Dirichlet smoothing, ln P(q|d) minus a constant that is the same for all documents (Zhai
    and Lafferty 2004).
    """
    background = index.cf / index.lengths.sum()
    scores = index.sums(np.log1p(index.tf / (mu * background)))
    return scores + index.topics.sum(1)[:, None] * np.log(mu / (mu + index.lengths))


def jelinek_mercer(index: TermIndex, share: float) -> Scores:
    """Query likelihood with a `share` of the collection's language in each document's (Zhai and Lafferty 2004)."""
    background = index.cf / index.lengths.sum()
    return index.sums(np.log1p((1 - share) * index.tf / (share * index.length * background)))


def dph(index: TermIndex) -> Scores:
    """Divergence from randomness, hypergeometric, without parameters (Amati 2006)."""
    share = np.minimum(index.tf / index.length, 0.99999)  # for a document of only one term the logarithm is infinite
    expected = index.tf * index.mean_length / index.length * index.size / index.cf
    information = index.tf * np.log2(expected) + 0.5 * np.log2(2 * np.pi * index.tf * (1 - share))
    return index.sums((1 - share) ** 2 / (index.tf + 1) * information)


def inl2(index: TermIndex, c: float = 1.0) -> Scores:
    """Divergence from randomness, inverse document frequency and Laplace (Amati and van Rijsbergen 2002)."""
    tf = index.tf * np.log2(1 + c * index.mean_length / index.length)
    return index.sums(tf / (tf + 1) * np.log2((index.size + 1) / (index.df + 0.5)))


def coordination(index: TermIndex) -> Scores:
    """Count how many of the topic's terms the document holds."""
    return replace(index, topics=(index.topics > 0).astype(np.float64)).sums(np.ones(len(index.tf)))


def shared_idf(index: TermIndex) -> Scores:
    """Sum the idf of the topic's terms that the document holds, no matter how often."""
    return index.sums(np.log((index.size + 1) / index.df))


def pivoted(index: TermIndex, slope: float = 0.2) -> Scores:
    """tf·idf with pivoted length normalisation (Singhal et al. 1996)."""
    return index.sums(
        (1 + np.log1p(np.log(index.tf))) / _longer(index, slope) * np.log((index.size + 1) / index.df)
    )  # fmt: skip


def cosine(index: TermIndex, idf: bool = True) -> Scores:
    """Cosine of tf·idf vectors, SMART's ltc.ltc; lnc.ltc without the documents' idf (Salton and Buckley 1988)."""
    return replace(index, topics=_topic_vectors(index)).sums(_document_vectors(index, idf).data)


def rocchio(index: TermIndex, feedback: int = 10, terms: int = 30) -> Scores:
    """Cosine with the topic moved to the mean of its best documents (Rocchio 1971), which are presumed relevant."""
    documents = _document_vectors(index)
    first = _best(cosine(index), feedback)
    means = csr_array(np.full(first.shape, 1 / feedback) * first) @ documents
    moved = _topic_vectors(index) + _heaviest(means, terms)
    return replace(index, topics=moved).sums(documents.data)


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


def reciprocal_ranks(rankings: Sequence[NDArray[np.int32]], documents: int, k: int = 60) -> Scores:
    """Reciprocal rank fusion (Cormack et al. 2009) of lists [topics, depth], −1 after their end."""
    scores = np.zeros((len(rankings[0]), documents))
    for ranking in rankings:
        topic, rank = np.nonzero(ranking >= 0)
        scores[topic, ranking[topic, rank]] += 1 / (k + rank + 1)
    return np.where(scores > 0, scores, -np.inf)


def _idf(index: TermIndex) -> NDArray[np.float64]:
    """Return the idf [terms]; 0 for those that no document holds."""
    df = np.bincount(index.documents.indices, minlength=index.documents.shape[1])
    return np.where(df > 0, np.log((index.size + 1) / np.maximum(df, 1)), 0.0)


def _document_vectors(index: TermIndex, idf: bool = True) -> csr_array:
    weights = _idf(index)[index.documents.indices] if idf else 1
    return _unit(index.weighted((1 + np.log(index.tf)) * weights))


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
