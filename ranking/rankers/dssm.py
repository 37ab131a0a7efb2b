"""Defines DSSM, a deep structured semantic model over letter trigrams."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ranking.errors import BadInput
from ranking.labels import LabelCounts
from ranking.rankers.category_input import CategoryInput
from ranking.rankers.dense import DenseRanker
from ranking.rankers.trigram_bag import summed
from ranking.texts import Texts
from ranking.tokenization import Tokenization
from ranking.trigrams import Trigrams

READ = {"buckets": 30_000, "max_query": 32, "max_document": 256}
"""What the tokens depend on, and its defaults."""


class Dssm(DenseRanker):
    """A question and an answer as bags of letter trigrams, each through a tower of tanh layers, compared by cosine.

    Huang et al. 2013 (sections 3.1 to 3.3), as Saeidi et al. 2017 (section 2) rank answers with it. Trained with
    `objective=softmax` it minimises −log of the right answer's share of a softmax over `scale` · cosine, among itself
    and the negatives that it is shown.

    Args:
        generator: draws the weights, uniformly within √(6 / (inputs + outputs)) as the original does.
        vectors: not read; every ranker is offered them.
        preset: the tower where `tower` is None: `paper`, `small` or `tiny`.
        tower: widths of the layers, the last one that of a text's vector; the paper's are 300, 300 and 128.
        buckets: numbers that trigrams are hashed to.
        max_query: words read of a query.
        max_document: words read of a document.
        tied: one tower reads both. Otherwise the document tower begins as a copy of the query tower.
        scale: γ, the smoothing factor of the softmax.
        categories: whether the first layer reads category and subcategory, one-hot, beside the trigrams.
        labels: how many of them there are.

    Raises:
        BadInput: where an option is out of its range, or there is no category to read.
    """

    presets = {
        "paper": {"tower": (300, 300, 128)},
        "small": {"tower": (128, 128, 64)},
        "tiny": {"tower": (32, 16)},
    }

    def __init__(
        self,
        generator: torch.Generator,
        vectors: NDArray[np.float32] | None = None,
        preset: str = "paper",
        tower: Sequence[int] | None = None,
        buckets: int = READ["buckets"],
        max_query: int = READ["max_query"],
        max_document: int = READ["max_document"],
        tied: bool = True,
        scale: float = 10.0,
        categories: bool = False,
        labels: LabelCounts | None = None,
    ) -> None:
        super().__init__()
        widths = self.resolve_preset(
            preset, tower=tower, buckets=buckets, max_query=max_query, max_document=max_document
        )
        if not widths["tower"]:
            raise BadInput("there is no layer", "ranker.tower", "give one width at least")
        if not scale > 0:
            raise BadInput(f"scale is {scale}", "ranker.scale", "choose a number above 0")
        self.scale = scale
        first = _Tower(buckets + 1, widths["tower"], labels, categories, generator)
        self.towers = nn.ModuleList([first] if tied else [first, copy.deepcopy(first)])  # of queries, of documents

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        given = {name: options.get(name, default) for name, default in READ.items()}
        cls.resolve_preset("paper", **given)
        return Trigrams(**given)

    @property
    def dimension(self) -> int:
        return self._towers()[0].dimension

    def represent_queries(self, queries: Texts) -> Tensor:
        return F.normalize(self._towers()[0](queries), dim=1)

    def represent_documents(self, documents: Texts) -> Tensor:
        return F.normalize(self._towers()[-1](documents), dim=1)

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        if len(self.towers) > 1:
            return super().represent(queries, documents)
        # In one go: one gradient of the first layer, which has most of the weights, and not two.
        vectors = self.represent_queries(queries.followed_by(documents))
        return vectors[: len(queries)], vectors[len(queries) :]

    def layers(self) -> list[nn.Module]:
        return [nn.ModuleList(layer) for layer in zip(*(tower.layers() for tower in self._towers()), strict=True)]

    def row_parameters(self) -> list[nn.Parameter]:
        return [tower.trigrams for tower in self._towers()]

    def _towers(self) -> list[_Tower]:
        return [tower for tower in self.towers if isinstance(tower, _Tower)]


class _Tower(nn.Module):
    """tanh layers, the first over a bag of trigrams and, where asked for, labels."""

    def __init__(
        self,
        rows: int,
        widths: Sequence[int],
        labels: LabelCounts | None,
        categories: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        first, *rest = widths
        self.dimension = widths[-1]
        inputs = rows + (labels.total if labels and categories else 0)
        bound = math.sqrt(6 / (inputs + first))
        self.trigrams = nn.Parameter(torch.empty(rows, first).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(first))
        self.categories = CategoryInput(labels, first, bound, generator) if categories else None
        self.rest = nn.ModuleList()
        for width in rest:
            layer = nn.utils.skip_init(nn.Linear, first, width)
            bound = math.sqrt(6 / (first + width))
            with torch.no_grad():
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.zero_()
            self.rest.append(layer)
            first = width

    def forward(self, texts: Texts) -> Tensor:
        state = summed(self.trigrams, texts) + self.bias
        if self.categories:
            state = state + self.categories(texts)
        state = torch.tanh(state)
        for layer in self.rest:
            state = torch.tanh(layer(state))
        return state

    def layers(self) -> list[nn.Module]:
        """The layers, from the input up; the first one's weights are parameters of the tower itself."""
        first = nn.ParameterList([self.trigrams, self.bias])
        return [nn.ModuleList([first, *([self.categories] if self.categories else [])]), *self.rest]
