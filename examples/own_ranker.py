"""Your own ranker: a class with a method for queries, one for documents, and one that compares them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pyrite import BM25, Collection, InBatch, Softmax, Static, Study
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.texts import Texts


class MeanOfWords(Ranker):
    """Compares the mean word vectors of query and document by their cosine.

    Args:
        vectors: float32 [vocabulary, dimension], the initial word vectors, which Pyrite supplies.
        generator: draws other initial weights.
    """

    def __init__(self, vectors: NDArray[np.float32], generator: torch.Generator) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.from_numpy(vectors.copy()))

    def represent_queries(self, queries: Texts) -> Tensor:
        return self._means(queries)

    def represent_documents(self, documents: Texts) -> Tensor:
        return self._means(documents)

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        return 20 * (queries * documents).sum(-1)

    def layers(self) -> list[nn.Module]:
        return [nn.ParameterList([self.vectors])]

    def _means(self, texts: Texts) -> Tensor:
        tokens, offsets = torch.from_numpy(texts.tokens.astype(np.int64)), torch.from_numpy(texts.offsets)
        means = functional.embedding_bag(tokens, self.vectors, offsets, mode="mean", include_last_offset=True)
        return functional.normalize(means, dim=1)


study = Study(
    Collection.from_pairs("pairs.csv"),
    {"+1 BM25": InBatch() + BM25(1)},
    [Static(), MeanOfWords],
    objective=Softmax(),
    seeds=3,
    scale="tiny",
)
print(study.run().verdict)
