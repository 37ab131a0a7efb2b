"""Your own ranker: a class with a method for queries, one for documents, and one that compares them."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pyrite import BM25, Collection, InBatch, Ranker, Softmax, Static, Study
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.texts import Texts


class MeanOfWords(Ranker):
    """Compares the mean word vectors of query and document by their cosine.

    Args:
        scale: the factor of the cosine.
    """

    def __init__(self, scale: float = 20.0) -> None:
        super().__init__()
        self.scale = scale

    def make(self, inputs: RankerInputs) -> None:
        self.vectors = nn.Parameter(torch.from_numpy(inputs.words.copy()))  # new weights are drawn by inputs.generator

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
        means = functional.embedding_bag(tokens, self.vectors, offsets, mode="mean", include_last_offset=True)
        return functional.normalize(means, dim=1)


study = Study(
    Collection.from_pairs("pairs.csv"),
    {"+1 BM25": InBatch() + BM25(1)},
    [Static(), MeanOfWords(scale=10.0)],
    objective=Softmax(),
    seeds=3,
    scale="tiny",
)
print(study.run().verdict)
