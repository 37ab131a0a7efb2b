"""Finds the pairs of a training by their texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput


def _key(query: str, positive: str) -> int:
    content = f"{len(query)} {query}{positive}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


class TextPairs:
    """The pairs of a training, found by a hash of query and positive.

    Args:
        queries, positives: the texts of each pair.
    """

    def __init__(self, queries: Sequence[str], positives: Sequence[str]) -> None:
        keys = np.array([_key(*pair) for pair in zip(queries, positives, strict=True)], np.uint64)
        self._rows = np.argsort(keys, kind="stable")
        self._keys = keys[self._rows]

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
        """Return the number of each pair.

        Raises:
            BadInput: if one is none of them.
        """
        wanted = np.array([_key(*pair) for pair in pairs], np.uint64)
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        if len(missing := np.flatnonzero(self._keys[places] != wanted)):
            query = pairs[int(missing[0])][0]
            what = f"the row of {query[:40]!r} is no pair of negatives.dataset"
            raise BadInput(what, "train_dataset", "give the trainer negatives.dataset with its texts unchanged")
        return self._rows[places]
