"""Counts the terms of documents into postings, and computes BM25's score of each posting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.kernels import loop
from pyrite.ranking.terms import Bm25Options


class CountedPostings:
    """The postings of documents, which are added chunk by chunk.

    A posting of a chunk of fewer than 65,536 documents takes 3 bytes, or 4 if a term occurs more than 255 times in one,
    until `take` puts all of them in the order of their terms.
    """

    def __init__(self) -> None:
        self._chunks: list[tuple[NDArray[np.int64], NDArray[np.int64], int, NDArray[Any], NDArray[Any]]] = []
        self._lengths = [np.zeros(0, np.int32)]
        self._documents = 0

    def add(self, flat: NDArray[np.int32], lengths: NDArray[np.int64], known: int) -> None:
        """Count the terms of the next documents.

        Args:
            flat, lengths: see `pyrite.ranking.terms.Terms.flat`.
            known: the number of terms to count. Others, whose numbers are higher, only add to the lengths.
        """
        sizes, last = np.zeros(known, np.int64), np.full(known, -1, np.int32)
        _occurrences(flat, lengths, sizes, last)
        rows, counts = np.empty(sizes.sum(), np.int32), np.empty(sizes.sum(), np.int32)
        last[:] = -1
        _count(flat, lengths, np.cumsum(sizes) - sizes, last, rows, counts)
        rows = rows.astype(np.uint16 if len(lengths) < 1 << 16 else np.uint32)
        counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        terms = np.flatnonzero(sizes)
        self._chunks.append((terms, sizes[terms], self._documents, rows, counts))
        self._lengths.append(lengths.astype(np.int32))
        self._documents += len(lengths)

    def take(self, known: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
        """Return all postings by term, then by document, and forget them.

        They are the offsets of the terms, the postings' documents and counts, and the lengths of all documents.
        """
        offsets = np.zeros(known + 1, np.int64)
        for terms, sizes, *_ in self._chunks:
            offsets[terms + 1] += sizes
        offsets = np.cumsum(offsets)
        documents, counts = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32)
        free = offsets[:-1].copy()  # the index of each term's next posting
        self._chunks.reverse()
        while self._chunks:
            _place(*self._chunks.pop(), free, documents, counts)
        return offsets, documents, counts, np.concatenate(self._lengths)


def idf_of(documents: int, frequencies: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the weight of each term in Lucene's form, from the number of documents that have it."""
    return np.array([math.log(1 + (documents - df + 0.5) / (df + 0.5)) for df in frequencies.tolist()], np.float32)


def weigh(
    offsets: NDArray[np.int64],
    documents: NDArray[np.int32],
    counts: NDArray[np.float32],
    lengths: NDArray[np.int32],
    mean: float,
    idf: NDArray[np.float32],
    options: Bm25Options,
    weights: NDArray[np.float32],
) -> None:
    """Fill `weights`, which may be `counts`, with BM25's score of each posting.

    The scores are bm25s's to the bit: float64 except for the parts that it keeps as float32.

    Args:
        offsets, documents, counts, lengths: see `CountedPostings.take`.
        mean: the mean of the lengths, over all pieces of a collection.
    """
    k1, b = options.k1, options.b
    longer = k1 * ((1 - b) + b * lengths / np.float64(mean))
    _weigh(offsets, documents, counts, longer, idf, weights)


@loop
def _occurrences(flat, lengths, sizes, last):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Count the texts that have each term into `sizes`; `last`, −1 at first, is the last text that has it."""
    position = 0
    for row in range(len(lengths)):
        for _ in range(lengths[row]):
            term = flat[position]
            position += 1
            if term < len(sizes) and last[term] != row:
                last[term] = row
                sizes[term] += 1


@loop
def _count(flat, lengths, free, last, rows, counts):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write the postings of some texts by term; `free` is the index of each term's next posting, `last` is −1."""
    position = 0
    for row in range(len(lengths)):
        for _ in range(lengths[row]):
            term = flat[position]
            position += 1
            if term >= len(free):
                continue
            if last[term] != row:
                last[term] = row
                rows[free[term]] = row
                counts[free[term]] = 1
                free[term] += 1
            else:
                counts[free[term] - 1] += 1


@loop
def _place(terms, sizes, first, rows, times, free, documents, counts):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Append a chunk's postings to those of each term."""
    position = 0
    for index in range(len(terms)):
        start = free[terms[index]]
        for posting in range(sizes[index]):
            documents[start + posting] = first + rows[position]
            counts[start + posting] = times[position]
            position += 1
        free[terms[index]] += sizes[index]


@loop
def _weigh(offsets, documents, counts, longer, idf, weights):  # type: ignore[no-untyped-def]  # pragma: no cover
    for term in range(len(offsets) - 1):
        for posting in range(offsets[term], offsets[term + 1]):
            count = counts[posting]
            weights[posting] = idf[term] * (count / (longer[documents[posting]] + count))
