"""Finds the pairs of a training by their texts."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _as_they_are(query: str, positive: str) -> int:
    return _hash(f"{len(query)} {query}{positive}")


def _as_read(query: str, positive: str) -> int:
    return _as_they_are(_query(query), unicodedata.normalize("NFC", positive.strip()))


def _query(text: str) -> str:
    """Return a query as the reader of pairs compares it with others: queries that differ in nothing else are one."""
    return unicodedata.normalize("NFC", " ".join(text.lower().split()))


class _Hashes:
    """Finds pairs by one kind of hash."""

    def __init__(self, hashed: Callable[[str, str], int], pairs: Sequence[tuple[str, str]]) -> None:
        self._hashed = hashed
        keys = self._of(pairs)
        self._rows = np.argsort(keys, kind="stable")
        self._keys = keys[self._rows]

    def _of(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.uint64]:
        return np.fromiter((self._hashed(*pair) for pair in pairs), np.uint64, len(pairs))

    def find(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
        """Return the number of each pair, −1 if it is none of them."""
        wanted = self._of(pairs)
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[places] == wanted, self._rows[places], -1)


class TextPairs:
    """The pairs of a training, found by a hash of query and positive.

    Args:
        queries, positives: the texts of each pair.
        plain: the queries without prompts.
        held_out: the texts of queries of validation and test, for messages.
    """

    def __init__(
        self, queries: Sequence[str], positives: Sequence[str], plain: Sequence[str], held_out: Iterable[str]
    ) -> None:
        pairs, in_files = (list(zip(texts, positives, strict=True)) for texts in (queries, plain))
        self._count, self._hashes = len(pairs), (_Hashes(_as_they_are, pairs), _Hashes(_as_read, in_files))
        self._held_out = frozenset(_hash(_query(query)) for query in held_out)

    def __len__(self) -> int:
        return self._count

    def find(self, pairs: Sequence[tuple[str, str]], of_files: bool = False) -> NDArray[np.int64]:
        """Return the number of each pair.

        Args:
            of_files: whether they may be written as in the files that were read: with blanks around them, in
                decomposed letters, the query in other case or without its prompt.

        Raises:
            BadInput: if one is none of them.
        """
        found = np.full(len(pairs), -1, np.int64)
        for hashes in self._hashes[: 1 + of_files]:
            missing = np.flatnonzero(found < 0)
            found[missing] = hashes.find([pairs[row] for row in missing.tolist()])
        if len(missing := np.flatnonzero(found < 0)):
            raise self._no_pair(pairs[int(missing[0])][0])
        return found

    def _no_pair(self, query: str) -> BadInput:
        """Return the error of a row that is no pair of the training."""
        if _hash(_query(query)) in self._held_out:
            what = f"the row of {query[:40]!r} is of a query that is kept for validation or test"
            remedy = "bring files named train, dev and test, and give the trainer the first, or negatives.dataset"
            return BadInput(what, "train_dataset", remedy)
        what = f"the row of {query[:40]!r} is no pair of negatives.dataset"
        remedy = "give the trainer negatives.dataset, or the rows that Negatives reads, with their texts unchanged"
        return BadInput(what, "train_dataset", remedy)
