"""Defines learned sparse retrieval: texts as weights of the vocabulary's words, compared by inner product."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

import torch
from torch import Tensor

from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.precision import AUTO, Precision
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.sentence_folder import SentenceFolder
from pyrite.ranking.rankers.sentence_models import load_splade
from pyrite.ranking.rankers.static_tower import StaticTower
from pyrite.ranking.texts import Texts


class Sparse(BiEncoder):
    """Learned sparse retrieval (SPLADE): one weight per word of the vocabulary, log-saturated and max-pooled.

    Formal et al. 2021, "SPLADE v2", equations 1 to 5: the weight of word j is the maximum over the text's tokens i of
    log(1 + ReLU(w_ij)), where w_ij is the logit of a masked language model. The loss gets λ·Σ_j (mean weight of j in
    the batch)², the FLOPS regularizer of Paria et al. 2020, for queries and for documents. Reads masked language models
    and the folders of sentence-transformers' `SparseEncoder`, and writes the latter. The collection is ranked by an
    inverted index, exactly. The score is the inner product.

    Args:
        query_flops: λ for queries; a checkpoint that reads queries by a table has none.
        document_flops: λ for documents.
        warmup: the number of steps in which both λ grow from 0, quadratically.
        tied: whether one transformer reads queries and documents. None takes as many as the checkpoint has.
    """

    library_class: ClassVar[str] = "SparseEncoder"
    heads: ClassVar[set[str]] = {"SpladePooling", "Pooling", "SparseAutoEncoder", "Dense", "Normalize"}
    sparse = True
    pairs = 256
    held = 1 << 11

    @checked
    def __init__(
        self,
        checkpoint: str,
        *,
        layers: int | None = None,
        max_query: Annotated[int, AtLeast(1)] | None = None,
        max_document: Annotated[int, AtLeast(1)] | None = None,
        query_flops: Annotated[float, NonNegative] = 3e-4,
        document_flops: Annotated[float, NonNegative] = 1e-4,
        warmup: Annotated[int, AtLeast(0)] = 1000,
        tied: bool | None = None,
        precision: Precision = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
        frozen_layers: Annotated[int, AtLeast(0)] = 0,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> None:
        super().__init__(checkpoint)
        self.weights, self.warmup = (query_flops, document_flops), warmup
        self._flops: list[Tensor] = []

    def make(self, inputs: RankerInputs) -> None:
        super().make(inputs)
        if isinstance(self.query_tower, StaticTower):  # a query costs nothing: only documents are regularized
            self.weights = (0.0, self.weights[1])

    def _load(self, source: SentenceFolder, layers: int | None, generator: torch.Generator) -> tuple[Any, list[str]]:
        return load_splade(source, layers, generator) if source.plain else super()._load(source, layers, generator)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.modules():
            if type(module).__name__ == "SpladePooling":
                module.training = True  # otherwise it overwrites what a gradient needs
        return self

    def forward(self, queries: Texts, documents: Texts, places: Tensor | None = None) -> Tensor:
        of_queries, of_documents = self.represent(queries, documents)
        if places is None:
            self._note(of_queries, of_documents)
            return self.interact(of_queries[:, None], of_documents.view(len(queries), -1, *of_documents.shape[1:]))
        return self.compare(of_queries, of_documents, places)

    def compare(self, queries: Tensor, documents: Tensor, places: Tensor) -> Tensor:
        self._note(queries, documents)
        return super().compare(queries, documents, places)

    def _note(self, queries: Tensor, documents: Tensor) -> None:
        """Keep the regularizer of a batch for `penalty`."""
        if self.training and torch.is_grad_enabled():
            both = zip(self.weights, (queries, documents), strict=True)
            self._flops.append(sum((weight * flops(vectors) for weight, vectors in both), torch.zeros(())))

    def penalty(self, step: int) -> Tensor | None:
        growth = min(1.0, (step + 1) / self.warmup) ** 2 if self.warmup else 1.0
        terms, self._flops = self._flops, []
        return growth * torch.stack(terms).mean() if terms else None


def flops(vectors: Tensor) -> Tensor:
    """Return Σ_j (mean of column j)² of vectors [n, vocabulary] (Paria et al. 2020, equation 5).

    It is the expected number of products per pair of texts if the weights are 0 or 1.
    """
    return (vectors.mean(0) ** 2).sum()
