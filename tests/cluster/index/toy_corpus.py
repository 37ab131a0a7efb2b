"""A corpus that takes no time to encode, and whose encoders can be held up and killed."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.texts import Texts

WORDS = 40


class WordSums(DenseRanker):
    """A text is the sum of its words' vectors; a table of any width can be loaded.

    Documents are not encoded while the file `gate` is there; the process that finds the file `poison` dies.
    """

    def __init__(self, dimension: int = 8, gate: str = "", poison: str = "") -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(WORDS, dimension))
        self.gate, self.poison = gate, poison

    @property
    def dimension(self) -> int:
        return self.table.shape[1]

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        self.table = nn.Parameter(torch.zeros_like(state_dict["table"]))
        return super().load_state_dict(state_dict, strict, assign)

    def represent_queries(self, queries: Texts) -> Tensor:
        words = torch.from_numpy(queries.padded(int(queries.lengths.max(initial=1))).astype(np.int64))
        return (self.table[words] * (words > 0)[..., None]).sum(1)

    def represent_documents(self, documents: Texts) -> Tensor:
        if self.poison and os.path.exists(self.poison):
            os.remove(self.poison)
            os._exit(1)
        while self.gate and os.path.exists(self.gate):
            time.sleep(0.01)
        return self.represent_queries(documents)

    def layers(self) -> list[nn.Module]:
        return [self]


@dataclass(frozen=True)
class ToyCorpus:
    """Texts drawn by chance; `gate` and `poison` lie in a folder, if there is one."""

    documents: int = 60
    queries: int = 12
    folder: str = ""

    def texts(self) -> tuple[Texts, Texts]:
        rng = np.random.default_rng(7)

        def draw(count: int, most: int) -> Texts:
            return Texts.of([rng.integers(1, WORDS, rng.integers(1, most)).tolist() for _ in range(count)])

        return draw(self.documents, 12), draw(self.queries, 5)

    def ranker(self) -> WordSums:
        return WordSums(8, *((str(Path(self.folder) / name) for name in ("gate", "poison")) if self.folder else ()))


def weights_of(seed: int, dimension: int = 8) -> dict[str, Tensor]:
    """Weights drawn from a seed: those of a step, say."""
    return {"table": torch.randn(WORDS, dimension, generator=torch.Generator().manual_seed(seed))}


def exact(corpus: ToyCorpus, weights: dict[str, Tensor], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The best documents of every query, computed here in float64, and their inner products."""
    ranker = WordSums()
    ranker.load_state_dict(weights)
    with torch.no_grad():
        documents, queries = (ranker.represent_queries(texts).numpy() for texts in corpus.texts())
    products = queries.astype(np.float64) @ documents.astype(np.float64).T
    order = np.lexsort((np.broadcast_to(np.arange(products.shape[1]), products.shape), -products), axis=1)[:, :depth]
    return order, np.take_along_axis(products, order, 1)
