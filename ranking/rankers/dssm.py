"""Defines DSSM, a deep structured semantic model over letter trigrams."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.labels import LabelCounts
from pyrite.ranking.rankers.category_input import CategoryInput
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.row_gradients import RowsRead, wants_rows
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization
from pyrite.ranking.trigrams import Trigrams

READ = ("buckets", "max_query", "max_document")
"""The options that the tokens depend on."""


class DSSM(DenseRanker):
    """DSSM: query and document as bags of letter trigrams, each through a tower of tanh layers, compared by cosine.

    Huang et al. 2013 (sections 3.1 to 3.3), as Saeidi et al. 2017 (section 2) rank answers with it. Weights start
    uniformly within √(6 / (inputs + outputs)), as in the original. Trained with `objective=softmax` it minimises −log
    of the right answer's share of a softmax over `scale` · cosine, among itself and its negatives.

    Args:
        preset: `paper`, `small` or `tiny`: the tower if `tower` is None.
        tower: widths of the layers. The last one is the length of a text's vector; the paper's are 300, 300 and 128.
        buckets: the number of buckets that trigrams are hashed to.
        max_query: words read of a query.
        max_document: words read of a document.
        tied: whether one tower reads queries and documents. Otherwise the document tower starts as a copy of the query
            tower.
        scale: γ, the smoothing factor of the softmax.
        categories: whether the first layer reads category and subcategory, one-hot, in addition to the trigrams.

    Raises:
        BadInput: if an option is out of its range, or there is no category to read.
    """

    presets = {
        "paper": {"tower": (300, 300, 128)},
        "small": {"tower": (128, 128, 64)},
        "tiny": {"tower": (32, 16)},
    }

    @checked
    def __init__(
        self,
        preset: str = "paper",
        *,
        tower: Sequence[Annotated[int, AtLeast(1)]] | None = None,
        buckets: Annotated[int, AtLeast(1)] = 30_000,
        max_query: Annotated[int, AtLeast(1)] = 32,
        max_document: Annotated[int, AtLeast(1)] = 256,
        tied: bool = True,
        scale: Annotated[float, Positive] = 10.0,
        categories: bool = False,
    ) -> None:
        super().__init__()
        self.resolve_preset(preset)
        self.scale = scale

    def make(self, inputs: RankerInputs) -> None:
        options = self.options
        widths = self.resolve_preset(options.preset, tower=options.tower)
        refuse(not widths["tower"], "there is no layer", "ranker.tower", "give one width at least")
        labels, rows = inputs.labels, options.buckets + 1
        first = _Tower(rows, widths["tower"], labels, options.categories, inputs.generator)
        self.towers = nn.ModuleList(
            [first] if options.tied else [first, copy.deepcopy(first)]
        )  # of queries, of documents

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        made = cls(**{name: value for name, value in options.items() if name in READ}).options
        return Trigrams(made.buckets, made.max_query, made.max_document)

    @property
    def dimension(self) -> int:
        return self._towers()[0].dimension

    def represent_queries(self, queries: Texts) -> Tensor:
        return F.normalize(self._towers()[0](queries), dim=1)

    def represent_documents(self, documents: Texts) -> Tensor:
        return F.normalize(self._towers()[-1](documents), dim=1)

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        together = len(self.towers) == 1
        return self.represent_together(queries, documents) if together else super().represent(queries, documents)

    def layers(self) -> list[nn.Module]:
        return [nn.ModuleList(layer) for layer in zip(*(tower.layers() for tower in self._towers()), strict=True)]

    def row_parameters(self) -> list[nn.Parameter]:
        return [tower.trigrams for tower in self._towers()]

    def _towers(self) -> list[_Tower]:
        return [tower for tower in self.towers if isinstance(tower, _Tower)]


class _Tower(nn.Module):
    """A tower of tanh layers, the first over a bag of trigrams and, if requested, labels."""

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
        """Return the layers, from the input up. The first one's weights are parameters of the tower itself."""
        first = nn.ParameterList([self.trigrams, self.bias])
        return [nn.ModuleList([first, *([self.categories] if self.categories else [])]), *self.rest]


def summed(vectors: Tensor, texts: Texts) -> Tensor:
    """Return Σ E_t over the tokens t of each text, repeats included: [texts, width].

    This is counts · E, without counts as wide as the vocabulary. On a CPU one compiled loop does it, which handles a
    run of one token at once: cheap if tokens are sorted.

    Args:
        vectors: E, [vocabulary, width]. Its gradient comes by rows if it is marked so (`pyrite.ranking.row_gradients`).
        texts: the texts, their tokens in any order.
    """
    if vectors.device.type == "cpu" and vectors.dtype == torch.float32:
        return _Sum.apply(vectors, texts)
    tokens = torch.from_numpy(texts.tokens.astype(np.int64)).to(vectors.device)
    offsets = torch.from_numpy(texts.offsets).to(vectors.device)
    return F.embedding_bag(tokens, vectors, offsets, mode="sum", include_last_offset=True, sparse=wants_rows(vectors))


class _Sum(torch.autograd.Function):
    """The autograd function of `summed` on a CPU."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, texts: Texts) -> Tensor:
        sums = np.zeros((len(texts), vectors.shape[1]), np.float32)
        _add(vectors.detach().numpy(), texts.tokens, texts.offsets, sums)
        ctx.texts, ctx.shape, ctx.by_rows = texts, vectors.shape, wants_rows(vectors)
        return torch.from_numpy(sums)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        read = RowsRead.of(ctx.texts.tokens, ctx.shape, ctx.by_rows)
        _scatter(gradients[0].contiguous().numpy(), read.places, ctx.texts.offsets, read.gradient)
        return read.tensor(), None


@njit(nogil=True, cache=True)
def _run_end(tokens, index, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the end of the run of one token that begins at `index`."""
    token = tokens[index]
    while index < end and tokens[index] == token:
        index += 1
    return index


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add(vectors, tokens, offsets, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    for text in range(len(offsets) - 1):
        row, index = sums[text], offsets[text]
        while index < offsets[text + 1]:
            token, after = tokens[index], _run_end(tokens, index, offsets[text + 1])
            count = np.float32(after - index)
            for column in range(vectors.shape[1]):
                row[column] += count * vectors[token, column]
            index = after


@njit(nogil=True, cache=True, fastmath={"contract"})
def _scatter(gradient, tokens, offsets, to_vectors):  # type: ignore[no-untyped-def]  # pragma: no cover
    for text in range(len(offsets) - 1):
        row, index = gradient[text], offsets[text]
        while index < offsets[text + 1]:
            token, after = tokens[index], _run_end(tokens, index, offsets[text + 1])
            count = np.float32(after - index)
            for column in range(gradient.shape[1]):
                to_vectors[token, column] += count * row[column]
            index = after
