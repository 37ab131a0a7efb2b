"""Defines custom parts for the examples: a ranker and a sampling policy, one class each."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ranking.rankers.ranker import Ranker
from ranking.texts import Texts
from ranking.training import Batch, RankerTraining
from sampling.policies.policy import SamplingPolicy


class MeanOfWords(Ranker):
    """Compares the mean word vector of a query with that of a document by cosine.

    Args:
        vectors: float32 [vocabulary, dimension], the initial word vectors.
        generator: draws other initial weights; unused here.
        scale: factor of the cosine, so that a softmax over scores can be close to 0 and 1.
    """

    def __init__(self, vectors: NDArray[np.float32], generator: torch.Generator, scale: float = 20.0) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.from_numpy(vectors.copy()))
        self.scale = scale

    def represent_queries(self, queries: Texts) -> Tensor:
        return self._means(queries)

    def represent_documents(self, documents: Texts) -> Tensor:
        return self._means(documents)

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        return self.scale * (queries * documents).sum(-1)

    def layers(self) -> list[nn.Module]:
        return [nn.ParameterList([self.vectors])]

    def _means(self, texts: Texts) -> Tensor:
        tokens, offsets = torch.from_numpy(texts.tokens.astype(np.int64)), torch.from_numpy(texts.offsets)
        means = F.embedding_bag(tokens, self.vectors, offsets, mode="mean", include_last_offset=True)
        return F.normalize(means, dim=1)


class EasyFirst(SamplingPolicy):
    """Chooses the first function for the first updates of a training, then the second: from easy to hard.

    Args:
        updates: number of updates with the first function.
    """

    def __init__(self, updates: int = 20) -> None:
        self.updates = updates

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(len(batch), int(training.step >= self.updates))
