"""Numbers the words of texts, without an object per word."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.kernels import kernel, loop
from pyrite.ranking.reading import Reading

SEPARATOR = "\0"
_ANY = np.arange(256, dtype=np.uint8)
"""For each byte its lowercase form if it belongs to a word, 0 if it separates words: all bytes but the separator."""
_LETTERS = np.array([ord(chr(b).lower()) if b > 127 or chr(b).isalnum() else 0 for b in range(256)], np.uint8)
"""The same for ASCII texts, and for words joined by the separator: bytes above 127 are parts of their letters."""
_LETTERS[128:] = _ANY[128:]


class KnownWords(NamedTuple):
    """The known words, by number.

    Args:
        table: the number of a word at the slot of its hash, or the next free one; −1 for a free slot.
        hashes: the hash of each word.
        ends: where each word begins in `spelled`, and the end of the last.
        spelled: the bytes of all words.
    """

    table: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    ends: NDArray[np.int64]
    spelled: NDArray[np.uint8]

    def with_room(self, count: int, letters: int) -> KnownWords:
        """Return the same `count` words with room for one more of this many letters: what is full is doubled."""
        table, hashes, ends, spelled = self
        if count == len(hashes):
            hashes, ends = _longer(hashes, 2 * count), _longer(ends, 2 * count + 1)
            table = np.full(2 * len(table), -1, np.int32)
            _fill(table, hashes, count)
        if ends[count] + letters > len(spelled):
            spelled = _longer(spelled, 2 * (len(spelled) + letters))
        return KnownWords(table, hashes, ends, spelled)


class WordIds:
    """Numbers distinct words in the order of their appearance; equal words of all texts have one number."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._count = 0
        self._words = KnownWords(
            np.full(1 << 12, -1, np.int32),
            np.empty(1 << 11, np.uint64),
            np.zeros((1 << 11) + 1, np.int64),
            np.empty(1 << 14, np.uint8),
        )

    def read(self, texts: pl.Series) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
        """Return the words of all texts by number, the number of words of each text, and the words seen first here."""
        cut, letters = self._cut(texts)
        offsets, data = _bytes_of(cut)
        ids = np.empty((int(offsets[-1] - offsets[0]) + len(cut)) // 2 + 1, np.int32)
        lengths, before = np.zeros(len(cut), np.int64), self._count
        row, position, total = 0, 0, 0
        while row < len(cut):
            row, position, total, self._count, needed = _number(
                data, offsets, letters, ids, lengths, row, position, total, self._count, self._words
            )
            self._words = self._words.with_room(self._count, needed)
        ends = self._words.ends
        new = bytes(self._words.spelled[ends[before] : ends[self._count]])
        places = (ends[before : self._count + 1] - ends[before]).tolist()
        return ids[:total], lengths, [new[start:end].decode() for start, end in pairwise(places)]

    def _cut(self, texts: pl.Series) -> tuple[pl.Series, NDArray[np.uint8]]:
        """Return texts whose words are apart already for those that need more than bytes to be cut."""
        if self._reading.tokenizer == "subwords":
            return self._reading.words(texts).list.join(SEPARATOR), _ANY
        others = (texts.str.len_bytes() != texts.str.len_chars()).arg_true()
        if len(others):
            texts = texts.clone().scatter(others, self._reading.words(texts.gather(others)).list.join(SEPARATOR))
        return texts, _LETTERS


def _bytes_of(texts: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where each text begins, and the bytes of all; read-only."""
    array = texts.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, starts, data = array.buffers()
    offsets = np.frombuffer(starts or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]
    return offsets, np.frombuffer(data or b"\0", np.uint8)


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return a longer array that begins with the same values."""
    longer = np.empty(length, array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def _slot(hashed, table):  # type: ignore[no-untyped-def]  # pragma: no cover
    return np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(len(table) - 1))


@kernel
def _is_word(words, word, hashed, data, letters, start, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return whether bytes `start` to `end` of a text are this word."""
    first = words.ends[word]
    if words.hashes[word] != hashed or words.ends[word + 1] - first != end - start:
        return False
    for at in range(end - start):  # noqa: SIM110 - Numba has no `all`
        if words.spelled[first + at] != letters[data[start + at]]:
            return False
    return True


@loop
def _number(data, offsets, letters, ids, lengths, row, position, total, count, words):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Number words from a position of a row on, until a new word finds no room.

    Fills `ids`, and adds to the `lengths` of rows. Returns the row and the position at which to continue, how many ids
    and how many known words there are, and the letters of the word that found no room, 0 after the last row.
    """
    table = words.table
    while row < len(offsets) - 1:
        position, end = max(position, offsets[row]), offsets[row + 1]
        while position < end:
            if letters[data[position]] == 0:
                position += 1
                continue
            start, hashed = position, np.uint64(14695981039346656037)
            while position < end and letters[data[position]] != 0:
                hashed = (hashed ^ np.uint64(letters[data[position]])) * np.uint64(1099511628211)
                position += 1
            slot = _slot(hashed, table)
            while table[slot] >= 0 and not _is_word(words, table[slot], hashed, data, letters, start, position):
                slot = (slot + 1) & (len(table) - 1)
            if table[slot] < 0:
                first = words.ends[count]
                if count == len(words.hashes) or first + position - start > len(words.spelled):
                    return row, start, total, count, position - start
                for at in range(position - start):
                    words.spelled[first + at] = letters[data[start + at]]
                table[slot], words.hashes[count], words.ends[count + 1] = count, hashed, first + position - start
                count += 1
            ids[total] = table[slot]
            total += 1
            lengths[row] += 1
        row += 1
    return row, position, total, count, np.int64(0)


@loop
def _fill(table, hashes, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put the numbers of the first words into an empty table."""
    for word in range(count):
        slot = _slot(hashes[word], table)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = word
