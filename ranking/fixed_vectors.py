"""Looks up vectors of documents that do not change during training, instead of reading the documents again."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.vector_memory import VectorMemory


class FixedVectors(VectorMemory):
    """Fixed vectors of all documents, against which ADORE (Zhan et al. 2021, section 4.2) trains a query tower.

    Args:
        vectors: float32 [documents, dimension], on the ranker's device.
    """

    def __init__(self, vectors: Tensor) -> None:
        super().__init__(0)
        self.table = vectors

    def among(self, documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        return np.ones(len(documents), bool)

    def vectors(self, documents: NDArray[np.integer]) -> Tensor:
        return self.table[torch.from_numpy(np.asarray(documents, np.int64)).to(self.table.device)]

    def note(self, documents: NDArray[np.integer], vectors: Tensor) -> None:
        pass
