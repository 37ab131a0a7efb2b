"""Keeps document vectors that an update uses instead of reading: those of the last batches, or fixed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class VectorMemory:
    """A queue of the document vectors of the last batches, as they were when read (Wang et al. 2020, section 3.2)."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self._queue: list[tuple[NDArray[np.int64], Tensor]] = []
        self._read: list[tuple[NDArray[np.int64], Tensor]] = []
        self._index()
        self.use(np.zeros(0, np.int64))

    def _index(self) -> None:
        """Look up each document's newest vector."""
        newest = self._queue[::-1]
        numbers = np.concatenate([np.zeros(0, np.int64), *(documents for documents, _ in newest)])
        self.documents, self._places = np.unique(numbers, return_index=True)
        self._vectors = torch.cat([vectors for _, vectors in newest]) if newest else torch.zeros(0, 0)

    def use(self, documents: NDArray[np.integer]) -> None:
        """Begin a batch with the documents whose vectors its update takes from the memory: all others are read.

        What was read before is forgotten: batches that a policy tried, and a sample of dev queries.
        """
        self._read = []
        self.used = np.intersect1d(documents, self.documents)

    def among(self, documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents the update takes from the memory."""
        return np.isin(documents, self.used)

    def vectors(self, documents: NDArray[np.integer]) -> Tensor:
        """Return the newest vectors [n, dimension] of documents in the memory."""
        return self._vectors[torch.from_numpy(self._places[np.searchsorted(self.documents, documents)])]

    def note(self, documents: NDArray[np.integer], vectors: Tensor) -> None:
        """Add the vectors [n, dimension] of documents that an update has read."""
        self._read.append((np.asarray(documents, np.int64), vectors.detach().clone()))

    def push(self) -> None:
        """End a batch: add its vectors to the queue, and remove the oldest batch."""
        if self._read:
            documents = np.concatenate([documents for documents, _ in self._read])
            distinct, first = np.unique(documents, return_index=True)
            vectors = torch.cat([vectors for _, vectors in self._read])[torch.from_numpy(first)]
            self._queue = [*self._queue, (distinct, vectors)][-self.batches :]
            self._index()
        self.use(np.zeros(0, np.int64))

    def state_dict(self) -> dict[str, Any]:
        """Return the queue, oldest batch first."""
        return {"queue": [[documents, vectors.cpu()] for documents, vectors in self._queue]}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Continue from `state_dict`, with the vectors on a device."""
        self._queue = [(np.asarray(documents), vectors.to(device)) for documents, vectors in state["queue"]]
        self._index()


class FixedVectors(VectorMemory):
    """Fixed vectors of all documents, against which ADORE (Zhan et al. 2021, section 4.2) trains a query tower."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__(0)
        self.table = vectors

    def among(self, documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        return np.ones(len(documents), bool)

    def vectors(self, documents: NDArray[np.integer]) -> Tensor:
        return self.table[torch.from_numpy(np.asarray(documents, np.int64)).to(self.table.device)]

    def note(self, documents: NDArray[np.integer], vectors: Tensor) -> None:
        pass
