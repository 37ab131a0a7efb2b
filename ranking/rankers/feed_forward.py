"""Defines f_FF, a siamese feed-forward ranker over weighted bags of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast
from pyrite.ranking.errors import refuse
from pyrite.ranking.rankers.bag import weighted_mean
from pyrite.ranking.rankers.category_input import CategoryInput
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import Ranker, linear, of_inputs
from pyrite.ranking.texts import Texts


class FeedForward(Ranker):
    """f_FF, a siamese feed-forward ranker over weighted bags of words (Cohen et al. 2019, section 5.3 and figure 3).

    A text is the weighted mean of its word vectors, Σ e^{w_t}·E_t / Σ e^{w_t}, with a learned weight
    w_t for each term (as in Dehghani et al. 2017, which the paper follows). Lower layers, shared by
    queries and documents, read each alone; upper layers read the two together and return a score.

    The first upper layer is linear in its input before its ReLU, so its half for the query and
    its half for the document belong to the representations: `W·[q, d] + c = (W_q·q + c) + W_d·d`.

    Args:
        preset: `paper`, `small` or `tiny`: widths that the next two options do not specify.
        lower: widths of the shared layers; the paper's are 2048, 1024, 512.
        upper: widths of the layers over the pair, without the final 1; the paper's are 512, 300.
        categories: whether the first shared layer reads category and subcategory in addition to the vector.

    Raises:
        BadInput: if the preset is unknown, there is no upper layer, or no category to read.
    """

    presets = {
        "paper": {"lower": (2048, 1024, 512), "upper": (512, 300)},
        "small": {"lower": (256, 128, 64), "upper": (64, 32)},
        "tiny": {"lower": (32, 16), "upper": (16,)},
    }

    def __init__(
        self,
        preset: str = "small",
        *,
        lower: Sequence[Annotated[int, AtLeast(1)]] | None = None,
        upper: Sequence[Annotated[int, AtLeast(1)]] | None = None,
        categories: bool = False,
    ) -> None:
        super().__init__()

    def make(self, inputs: RankerInputs) -> None:
        options, vectors, generator = self.options, inputs.words, inputs.generator
        widths = self.resolve_preset(options.preset, lower=options.lower, upper=options.upper)
        refuse(not widths["upper"], "there is no layer over the pair", "ranker.upper", "give one width at least")
        self.vectors = nn.Parameter(torch.from_numpy(vectors.copy()))
        self.term_weights = nn.Parameter(torch.zeros(len(vectors)))
        width_before = vectors.shape[1]
        refuse(
            options.categories and not widths["lower"],
            "there is no layer to read categories with",
            "ranker.lower",
            "give one width at least",
        )
        self.lower = nn.ModuleList()
        for width in widths["lower"]:
            self.lower.append(linear(width_before, width, generator))
            width_before = width
        joined, *rest = widths["upper"]
        whole = linear(2 * width_before, joined, generator)
        self.query_half = linear(width_before, joined, generator)
        self.document_half = linear(width_before, joined, generator, bias=False)
        with torch.no_grad():  # two halves of one layer, drawn as that layer
            self.query_half.weight.copy_(whole.weight[:, :width_before])
            self.query_half.bias.copy_(whole.bias)
            self.document_half.weight.copy_(whole.weight[:, width_before:])
        self.upper = nn.ModuleList()
        for width in (*rest, 1):
            self.upper.append(linear(joined, width, generator))
            joined = width
        self.categories: CategoryInput | None = None
        if options.categories:
            self.categories = CategoryInput(inputs.labels, widths["lower"][0], of_inputs(vectors.shape[1]), generator)

    def read(self, texts: Texts) -> Tensor:
        """Return the output of the shared lower layers. Shape [texts, last lower width]."""
        state = weighted_mean(self.vectors, self.term_weights, texts)
        for number, layer in enumerate(self.lower):
            state = layer(state)
            if self.categories and not number:  # the first layer reads the labels too
                state = state + self.categories(texts)
            state = F.relu(state)
        return state

    def represent_queries(self, queries: Texts) -> Tensor:
        return self.query_half(self.read(queries))

    def represent_documents(self, documents: Texts) -> Tensor:
        return self.document_half(self.read(documents))

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        state = F.relu(queries + documents)
        for layer in self.upper[:-1]:
            state = F.relu(layer(state))
        return self.upper[-1](state).squeeze(-1)

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        # Queries and documents share the lower layers: reading them together makes one gradient of the
        # vectors, as large as the vocabulary, instead of two.
        both = self.read(queries.followed_by(documents))
        return self.query_half(both[: len(queries)]), self.document_half(both[len(queries) :])

    def row_parameters(self) -> list[nn.Parameter]:
        return [self.vectors]

    def layers(self) -> list[nn.Module]:
        return [*self.lower, nn.ModuleList([self.query_half, self.document_half]), *self.upper]
