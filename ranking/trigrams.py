"""Turns texts into bags of letter trigrams (word hashing)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.alike import mix
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.reading import words_of
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization, Tokens

MARK = "#"
"""The mark before and after each word."""


class Trigrams(Tokenization):
    """Word hashing: #cat# is #ca, cat, at#, and each trigram a number below `buckets` (Huang et al. 2013, 3.2).

    The original numbers the trigrams of its data, some 30,000. A hash numbers those of any script without reading the
    data first; trigrams that share a number are counted (`collisions`).
    """

    def __init__(self, buckets: int, max_query: int, max_document: int) -> None:
        self.buckets, self.max_query, self.max_document = buckets, max_query, max_document
        self._seen = np.zeros(0, np.uint64)

    def key(self) -> list[Any]:
        return ["trigrams", self.buckets, self.max_query, self.max_document]

    def encode(self, collection: Collection) -> Tokens:
        self._seen = np.zeros(0, np.uint64)
        documents, queries = (
            self.bags(collection.documents, self.max_document),
            self.bags(collection.queries, self.max_query),
        )
        trigrams, shared = collisions(self._seen, self.buckets)
        self.remark = f"{trigrams:,} letter trigrams in {self.buckets:,} buckets, {shared:,} of them share one"
        return Tokens(documents, queries)

    def bags(self, frame: pl.DataFrame, limit: int) -> Texts:
        """Return the trigrams of the first `limit` words of each text, ascending, so that runs add up fast.

        Numbers are one more than in `bucket_of`, so 0 is free. A text without words has the single number 1.
        """
        return Texts.of_arrays(bag for words in words_of(frame, limit) for bag in self._bags(words))

    def _bags(self, texts: pl.Series) -> list[NDArray[np.int32]]:
        words = texts.explode()
        distinct = words.drop_nulls().unique(maintain_order=True)
        trigrams, offsets = trigrams_of(distinct)
        self._seen = np.union1d(self._seen, trigrams)
        known = Texts((bucket_of(trigrams, self.buckets) + 1).astype(np.int32), offsets)
        numbers = pl.DataFrame({"word": distinct, "row": np.arange(len(distinct))})
        rows = words.rename("word").to_frame().drop_nulls().join(numbers, on="word", how="left", maintain_order="left")
        every = known.take(rows["row"].to_numpy())
        ends = np.concatenate([[0], np.cumsum(texts.list.len().fill_null(0).to_numpy())]).astype(np.int64)
        of_texts = every.offsets[ends]
        nothing = np.ones(1, np.int32)
        return [
            np.sort(every.tokens[start:end]) if end > start else nothing for start, end in itertools.pairwise(of_texts)
        ]


def trigrams_of(words: pl.Series) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the letter trigrams of each word, marks included, in their order.

    Returns:
        uint64 trigrams of all words, concatenated, 21 bits per letter (its code point), the last letter lowest; and
        int64 offsets, one longer than the number of words.
    """
    marked = (MARK + words + MARK).to_list()
    lengths = np.array([len(word) for word in marked], np.int64)
    letters = np.frombuffer("".join(marked).encode("utf-32-le"), np.uint32).astype(np.uint64)
    ends = np.cumsum(lengths)
    inside = np.ones(len(letters), bool)  # the start of a trigram: every letter except a word's last two
    inside[ends - 1] = inside[ends - 2] = False
    starts = np.flatnonzero(inside)
    trigrams = (letters[starts] << np.uint64(42)) | (letters[starts + 1] << np.uint64(21)) | letters[starts + 2]
    return trigrams, np.concatenate([[0], np.cumsum(lengths - 2)]).astype(np.int64)


def bucket_of(trigrams: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """Return the number of each trigram, from 0: the same on every machine."""
    return (mix(trigrams) % np.uint64(buckets)).astype(np.int64)


def collisions(trigrams: NDArray[np.uint64], buckets: int) -> tuple[int, int]:
    """Return the number of distinct trigrams, and of those that share their bucket."""
    distinct = np.unique(trigrams)
    filled = np.bincount(bucket_of(distinct, buckets), minlength=buckets)
    return len(distinct), int(filled[filled > 1].sum())
