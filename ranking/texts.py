"""Stores many texts as two flat arrays, the form in which a collection is shared and gathered from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def taken(offsets: NDArray[np.int64], rows: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the entries of some rows of flat arrays, and the offsets of these rows among them.

    Args:
        offsets: int64, one longer than the number of rows; row `i` is `offsets[i]:offsets[i+1]`.
        rows: the rows in any order, repeats allowed.
    """
    starts = offsets[rows]
    lengths = offsets[np.asarray(rows) + 1] - starts
    begins = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    # Position p of the result is in row t, at p - begins[t] from that row's start.
    return np.arange(begins[-1]) + np.repeat(starts - begins[:-1], lengths), begins


@dataclass(frozen=True)
class Texts:
    """Token ids of many texts, concatenated.

    Flat arrays are what Ray's object store hands to every process without a copy, and what an
    embedding bag reads without padding.

    Args:
        tokens: int32, all texts' token ids. 0 never occurs: it is the padding of `padded`. Those of a large collection
            are in files (`pyrite.ranking.pieced_array`), a text never in two: `take` texts before you compute with
            them.
        offsets: int64, one longer than the number of texts; text `i` is `tokens[offsets[i]:offsets[i+1]]`.
        labels: int32 [texts, 2], the category and subcategory of each (`pyrite.ranking.labels`); −1 for none.
        added: int64 [texts], the tokens of each text's prompt, which are among its tokens. None if all texts have the
            ranker's prompt.
    """

    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int32] | None = None
    added: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each text."""
        return np.diff(self.offsets)

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Texts:
        """Make texts from lists of token ids."""
        return cls.of_arrays(np.array(text, np.int32) for text in texts)

    @classmethod
    def of_arrays(cls, texts: Iterable[NDArray[np.int32]]) -> Texts:
        """Make texts from arrays of token ids, one per text."""
        kept = list(texts)
        offsets = np.zeros(len(kept) + 1, np.int64)
        np.cumsum([len(text) for text in kept], out=offsets[1:])
        return cls(np.concatenate([np.zeros(0, np.int32), *kept]), offsets)

    def take(self, rows: NDArray[np.integer]) -> Texts:
        """Return the texts at `rows`, in that order, repeats allowed."""
        positions, offsets = taken(self.offsets, rows)
        labels, added = (None if each is None else each[rows] for each in (self.labels, self.added))
        return Texts(self.tokens[positions], offsets, labels, added)

    def followed_by(self, other: Texts) -> Texts:
        """Return these texts and then the others."""
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        both = ((self.labels, other.labels), (self.added, other.added))
        labels, added = (
            None if first is None or second is None else np.concatenate([first, second]) for first, second in both
        )
        return Texts(np.concatenate([self.tokens, other.tokens]), offsets, labels, added)

    def padded(self, length: int | NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the first tokens of each text as rows, filled up with 0. Shape [texts, greatest length].

        Args:
            length: the number of tokens, or one for each text.
        """
        columns = np.arange(np.max(length, initial=0))
        inside = columns < np.minimum(self.lengths, length)[:, None]
        positions = np.where(inside, self.offsets[:-1, None] + columns, 0)
        return np.where(inside, self.tokens[positions] if len(self.tokens) else 0, 0).astype(np.int32)
