"""Feeds the category and subcategory of a text into a ranker."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.errors import BadInput
from pyrite.ranking.labels import LabelCounts
from pyrite.ranking.texts import Texts


class CategoryInput(nn.Module):
    """A linear layer over a text's one-hot category and one-hot subcategory (Saeidi et al. 2017, section 3).

    Added to the output of another linear layer over the text it is one layer over both inputs. The one-hot vectors,
    categories first, are never made: their product with the weights is one row for each.

    Args:
        labels: the numbers of categories and subcategories.
        width: the width of the layer's output.
        bound: weights are drawn uniformly from −bound to bound. 0 leaves the other layer's output unchanged at first.
        generator: draws the weights.

    Raises:
        BadInput: if there is no category.
    """

    def __init__(self, labels: LabelCounts | None, width: int, bound: float, generator: torch.Generator) -> None:
        super().__init__()
        if labels is None or not labels.categories:
            raise BadInput("the collection has no categories", "ranker.categories", "set ranker.categories=false")
        self.offsets = (0, labels.categories)
        weight = torch.empty(labels.total, width).uniform_(-1, 1, generator=generator)
        self.weight = nn.Parameter(weight * bound)

    def forward(self, texts: Texts) -> Tensor:
        """Return the layer's output [texts, width]; a missing label adds nothing."""
        if texts.labels is None:
            raise ValueError("texts without labels")
        labels = torch.from_numpy(texts.labels.astype("int64")).to(self.weight.device)
        rows = F.embedding((labels + labels.new_tensor(self.offsets)).clamp(min=0), self.weight)
        return (rows * (labels >= 0)[..., None]).sum(1)
