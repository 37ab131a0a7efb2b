"""Keeps the vectors of all documents, so that validation and test of the same weights read the documents once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.rankers.ranker import Ranker

MOST = 1 << 28
"""The bytes of representations that are kept of one ranker; the oldest go first."""
LARGEST = 1 << 30
"""The bytes of weights up to which they are compared: a digest of more takes as long as it saves."""


def weights_key(ranker: Ranker) -> bytes | None:
    """Return a digest of a ranker's weights; None if nothing is kept of it, or while it is trained."""
    weights = ranker.state_dict()
    if not ranker.keeps_documents or ranker.training or sum(each.nbytes for each in weights.values()) > LARGEST:
        return None
    key = hashlib.blake2b(digest_size=16)
    for name, weight in weights.items():
        key.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        key.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return key.digest()


class KeptVectors:
    """The representations of blocks of documents, by the weights and the documents' content."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, bytes], Tensor] = OrderedDict()

    def of(self, weights: bytes, contents: NDArray[np.uint64], read: Callable[[], Tensor]) -> Tensor:
        """Return what `read` returns for documents with these digests of their content, read once per weights."""
        key = weights, hashlib.blake2b(contents.tobytes(), digest_size=16).digest()
        if key in self._kept:
            return self._kept[key]
        self._kept[key] = vectors = read()
        while sum(each.nbytes for each in self._kept.values()) > MOST:
            self._kept.popitem(last=False)
        return vectors


_of_rankers: WeakKeyDictionary[Ranker, KeptVectors] = WeakKeyDictionary()


def kept_documents(
    ranker: Ranker, weights: bytes | None, contents: NDArray[np.uint64], read: Callable[[], Tensor]
) -> Tensor:
    """Return the representations of a block of documents, as `read` does: kept ones if the weights are the same.

    Args:
        weights: their `weights_key`.
        contents: uint64 [n], the digests of what the ranker reads of the documents, in their order.
    """
    if weights is None:
        return read()
    return _of_rankers.setdefault(ranker, KeptVectors()).of(weights, contents, read)
