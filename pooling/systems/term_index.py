"""Holds documents and topics as term counts, which retrieval models read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Scores = NDArray[np.float64]
"""[topics, documents], −inf for documents that are not retrieved."""


def counts_of(texts: Sequence[NDArray[np.integer]], terms: int) -> csr_array:
    """Count how often each term is in each text: float64 [texts, terms], from the term ids of each text."""
    ends = np.cumsum([0, *map(len, texts)])
    flat = np.concatenate([np.zeros(0, np.int64), *texts])
    counts = csr_array((np.ones(len(flat)), flat, ends), (len(texts), terms))
    counts.sum_duplicates()
    return counts


def pair_counts(
    documents: Sequence[NDArray[np.integer]], topics: Sequence[NDArray[np.integer]]
) -> tuple[csr_array, csr_array]:
    """Count adjacent pairs of terms, in documents and topics, for the pairs that topics have."""

    def pairs(texts: Sequence[NDArray[np.integer]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        flat = np.concatenate([np.zeros(0, np.int64), *texts]).astype(np.int64)
        text = np.repeat(np.arange(len(texts)), [len(one) for one in texts])
        within = text[:-1] == text[1:]
        return text[:-1][within], ((flat[:-1] << 32) | flat[1:])[within]

    of_topics = np.unique(pairs(topics)[1])

    def counts(texts: Sequence[NDArray[np.integer]]) -> csr_array:
        text, pair = pairs(texts)
        known = np.isin(pair, of_topics)
        cells = text[known], np.searchsorted(of_topics, pair[known])
        return csr_array((np.ones(len(cells[0])), cells), (len(texts), len(of_topics)))

    return counts(documents), counts(topics)


@dataclass(frozen=True)
class TermIndex:
    """Documents and topics as term counts.

    Args:
        documents: [documents, terms].
        topics: [topics, terms], the weight of each term in the topic.
        lengths: float64 [documents], in terms, including terms without a column.
    """

    documents: csr_array
    topics: csr_array
    lengths: NDArray[np.float64]

    @cached_property
    def tf(self) -> NDArray[np.float64]:
        """[postings], how often the term is in the document; the properties below are for the same postings."""
        return self.documents.data

    @cached_property
    def length(self) -> NDArray[np.float64]:
        """[postings], length of the document, at least 1."""
        return np.repeat(np.maximum(self.lengths, 1), np.diff(self.documents.indptr))

    @cached_property
    def df(self) -> NDArray[np.float64]:
        """[postings], documents that hold the term."""
        terms = self.documents.indices
        return np.bincount(terms, minlength=self.documents.shape[1])[terms].astype(np.float64)

    @cached_property
    def cf(self) -> NDArray[np.float64]:
        """[postings], occurrences of the term in all documents."""
        terms = self.documents.indices
        return np.bincount(terms, self.tf, self.documents.shape[1])[terms]

    @property
    def size(self) -> int:
        """Number of documents."""
        return self.documents.shape[0]

    @cached_property
    def mean_length(self) -> float:
        """Mean length of the documents."""
        return max(float(self.lengths.mean()), 1.0)

    def weighted(self, weights: NDArray[np.float64]) -> csr_array:
        """Return the documents with other values [postings] instead of the counts."""
        return csr_array((weights, self.documents.indices, self.documents.indptr), self.documents.shape)

    def sums(self, weights: NDArray[np.float64]) -> Scores:
        """Sum weights [postings] over each topic's terms, each multiplied by the topic's weight of it."""
        used = np.unique(self.topics.indices)
        product = self.weighted(weights)[:, used] @ self.topics[:, used].T
        return np.ascontiguousarray(product.toarray().T)

    @cached_property
    def matches(self) -> NDArray[np.bool_]:
        """Return [topics, documents], whether they have a term in common."""
        ones = replace(self, topics=(self.topics > 0).astype(np.float64))
        return ones.sums(np.ones(len(self.tf))) > 0


def character_grams(index: TermIndex, words: Sequence[str], n: int) -> TermIndex:
    """Build the index of sequences of n characters instead of words (one per column), with a mark at the beginning and
    end of a word.
    """
    spelt = [[f"_{word}_"[start : start + n] for start in range(max(len(word) + 3 - n, 1))] for word in words]
    of_topics = {gram for term in np.unique(index.topics.indices) for gram in spelt[term]}
    number = {gram: place for place, gram in enumerate(sorted(of_topics))}
    known = [np.array([number[gram] for gram in grams if gram in number], np.int64) for grams in spelt]
    of_word = counts_of(known, len(number))
    lengths = index.documents @ np.array([len(grams) for grams in spelt], np.float64)
    return TermIndex(index.documents @ of_word, index.topics @ of_word, lengths)
