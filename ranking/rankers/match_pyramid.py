"""Defines f_MP (MatchPyramid), which matches texts in the way images are recognised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast
from pyrite.ranking.errors import refuse
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import Ranker, convolution, linear
from pyrite.ranking.texts import Texts


class MatchPyramid(Ranker):
    """f_MP: MatchPyramid (Pang et al. 2016) over cosine similarities, as in Cohen et al. 2019, section 5.3.

    The matrix of cosines between the word vectors of query and document is an image: a convolution,
    a dynamic pooling to a fixed grid for texts of any length, a second convolution, a 2×2 pooling
    and two fully connected layers return a score. Trained with cross-entropy in the original.

    Args:
        preset: `paper`, `small` or `tiny`: widths that the other options do not specify.
        channels: feature maps of the two convolutions.
        kernels: sides of the two square kernels.
        grid: rows (query) and columns (document) after the dynamic pooling; even.
        hidden: the width of the fully connected layer.
        max_query: words read of a query.
        max_document: words read of a document.

    Raises:
        BadInput: if the preset is unknown or the grid is not even.
    """

    pairs = 256
    reads_apart = False
    presets = {
        "paper": {
            "channels": (8, 16), "kernels": (5, 3), "grid": (6, 20), "hidden": 128,
            "max_query": 32, "max_document": 256,
        },
        "small": {
            "channels": (4, 8), "kernels": (3, 3), "grid": (4, 10), "hidden": 64, "max_query": 16, "max_document": 96,
        },
        "tiny": {
            "channels": (2, 2), "kernels": (3, 3), "grid": (2, 4), "hidden": 8, "max_query": 8, "max_document": 32,
        },
    }  # fmt: skip

    def __init__(
        self,
        preset: str = "small",
        *,
        channels: Sequence[Annotated[int, AtLeast(1)]] | None = None,
        kernels: Sequence[Annotated[int, AtLeast(1)]] | None = None,
        grid: Sequence[Annotated[int, AtLeast(1)]] | None = None,
        hidden: Annotated[int, AtLeast(1)] | None = None,
        max_query: Annotated[int, AtLeast(1)] | None = None,
        max_document: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        super().__init__()

    def make(self, inputs: RankerInputs) -> None:
        widths = self.resolve_preset(**vars(self.options))
        generator = inputs.generator
        self.grid, self.max_query = widths["grid"], widths["max_query"]
        self.max_document = self.document_reach = widths["max_document"]
        refuse(
            any(cells < 2 or cells % 2 for cells in self.grid),
            f"grid is {list(self.grid)}",
            "ranker.grid",
            "choose two even numbers, 2 or more",
        )
        self.vectors = nn.Parameter(torch.from_numpy(inputs.words.copy()))
        (first, second), (outer, inner) = widths["channels"], widths["kernels"]
        self.first = convolution(1, first, (outer, outer), generator)
        self.second = convolution(first, second, (inner, inner), generator)
        flat = second * (self.grid[0] // 2) * (self.grid[1] // 2)
        self.hidden = linear(flat, widths["hidden"], generator)
        self.out = linear(widths["hidden"], 1, generator)

    def represent_queries(self, queries: Texts) -> Tensor:
        return torch.from_numpy(queries.padded(self.max_query)).to(self.device)

    def represent_documents(self, documents: Texts) -> Tensor:
        return torch.from_numpy(documents.padded(self.max_document)).to(self.device)

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        # Cut the padding that no text of the batch needs.
        longest = [max(1, int((texts > 0).sum(-1).max())) for texts in (queries, documents)]
        return self.match(queries[..., : longest[0]], documents[..., : longest[1]])

    def match(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Return scores of token ids [b, 1, words] with [b, m, words], both padded with 0."""
        batch, count = documents.shape[:2]
        cosines = self.cosines(queries, documents).flatten(0, 1)[:, None]
        image = F.relu(self.first(cosines))
        query_lengths = (queries > 0).sum(-1).expand(batch, count).flatten()
        image = pool(image, query_lengths, self.grid[0], dim=2)
        image = pool(image, (documents > 0).sum(-1).flatten(), self.grid[1], dim=3)
        image = F.max_pool2d(F.relu(self.second(image)), 2)
        return self.out(F.relu(self.hidden(image.flatten(1)))).view(batch, count)

    def cosines(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Return the cosine of each query word with each document word; 0 at padding: [b, m, query, document]."""
        of_queries = F.normalize(F.embedding(queries, self.vectors), dim=-1) * (queries > 0)[..., None]
        of_documents = F.normalize(F.embedding(documents, self.vectors), dim=-1) * (documents > 0)[..., None]
        return of_queries @ of_documents.transpose(-1, -2)

    def layers(self) -> list[nn.Module]:
        return [self.first, self.second, self.hidden, self.out]


def pool(image: Tensor, lengths: Tensor, cells: int, dim: int) -> Tensor:
    """Apply dynamic max pooling to one axis: each row's first `length` positions become `cells`.

    Cell c covers positions ⌊c·length/cells⌋ up to ⌈(c+1)·length/cells⌉, so that a text shorter than the
    grid is stretched and a longer one is shrunk.

    Args:
        image: [n, channels, rows, columns].
        lengths: [n], the positions of `dim` that hold text.
        cells: the number of cells.
        dim: 2 or 3.
    """
    lengths = lengths.clamp(min=1)
    cell = torch.arange(cells, device=image.device)
    start = cell * lengths[:, None] // cells
    end = ((cell + 1) * lengths[:, None] + cells - 1) // cells
    widest = int((end - start).max())
    # Cells narrower than the widest repeat their last position, which leaves the maximum alone.
    positions = torch.minimum(start[..., None] + torch.arange(widest, device=image.device), end[..., None] - 1)
    shape = [len(image), 1, 1, 1]
    shape[dim] = cells * widest
    sizes = list(image.shape)
    sizes[dim] = cells * widest
    gathered = image.gather(dim, positions.view(shape).expand(sizes))
    return gathered.unflatten(dim, (cells, widest)).amax(dim + 1)
