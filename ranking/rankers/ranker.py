"""Defines the base of every ranker."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.errors import refuse
from pyrite.ranking.part import Part, all_options, described, parameters_of, path_of
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization


class Ranker(nn.Module, Part):
    """The base of all rankers: scores documents for queries, in three steps that keep many candidates cheap.

    A query and a document are each represented once, by the part of the network that depends on
    one of them alone; `interact` computes what depends on the pair. A collection's candidates are
    then scored at the cost of their distinct documents plus the interactions (`pyrite.ranking.scoring`).

    The constructor takes plain values, such as widths, and reads no weights: `make` makes them, when a run starts. A
    subclass with an option `categories` receives texts with category and subcategory, whose numbers are in
    `inputs.labels` (`pyrite.ranking.rankers.category_input`).

    Attributes:
        presets: the widths of a ranker that starts from nothing, by preset name: `paper` as published, `small` for a
            CPU, `tiny` for tests.
        pairs: the number of pairs that should interact at once: few enough that the data between two layers stays in
            a core's cache.
        held: the number of documents whose representations should be held at once.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    pairs: ClassVar[int] = 2048
    held: ClassVar[int] = 1 << 18
    reads_apart: ClassVar[bool] = True
    """Whether most of its work is in representing texts, query and document separately."""
    keeps_documents: ClassVar[bool] = False
    """Whether what it makes of all documents is kept between measurements of the same weights: reading them is slow."""
    needs_grad_scaler: bool = False
    """Whether it computes in float16, whose gradients need a scaled loss."""

    drawn: Sequence[str] = ()
    """The names of the weights that its checkpoint lacks, and that are drawn."""
    document_reach: int | None = None
    """Tokens that it reads of a document, if that is fewer than the collection has: texts that differ only after
    them are alike."""

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__(**defaults)
        supplied = {"vectors", "generator"} & parameters_of(cls.__init__).keys()
        remedy = "give the constructor its options alone, and make weights in make(self, inputs), of inputs."
        refuse(sorted(supplied), "takes {} in its constructor", path_of(cls), f"{remedy}vectors and generator")

    def make(self, inputs: RankerInputs) -> None:
        """Make the weights. A subclass defines it, unless its constructor makes them."""

    def start(self, inputs: RankerInputs) -> Self:
        """Make the weights, and return the ranker. Each run calls it once."""
        self.make(inputs)
        return self

    @property
    def options(self) -> SimpleNamespace:
        """The options that it was made with, and the defaults of those that were left out."""
        return SimpleNamespace(**all_options(self))

    def __repr__(self) -> str:
        return described(self)

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization | None:
        """Return how texts become the tokens that it reads; None if it reads the words of `pyrite.ranking.encoding`.

        Args:
            options: options of its constructor.
        """
        return None

    @classmethod
    def resolve_preset(cls, preset: str, **given: Any) -> dict[str, Any]:
        """Return the preset's widths, replaced by those that are given (not None).

        Raises:
            BadInput: if there is no such preset.
        """
        refuse(
            preset not in cls.presets,
            f"no preset {preset!r}",
            "ranker.preset",
            f"choose one of {', '.join(cls.presets)}",
        )
        return cls.presets[preset] | {name: value for name, value in given.items() if value is not None}

    @abstractmethod
    def represent_queries(self, queries: Texts) -> Tensor:
        """Return one row per query. Shape [queries, …]."""

    @abstractmethod
    def represent_documents(self, documents: Texts) -> Tensor:
        """Return one row per document. Shape [documents, …]."""

    @abstractmethod
    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Return scores of represented queries [b, 1, …] with represented documents [b, m, …]. Shape [b, m]."""

    @abstractmethod
    def layers(self) -> list[nn.Module]:
        """Return its layers with weights, from the input up. The gradient norm is taken over the last ones."""

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        """Represent both. Override it for a ranker that reads them together."""
        return self.represent_queries(queries), self.represent_documents(documents)

    def forward(self, queries: Texts, documents: Texts, places: Tensor | None = None) -> Tensor:
        """Return scores [b, m] of `b` queries with `m` documents each.

        Args:
            queries: `b` texts.
            documents: `b·m` texts, query by query; or any number of them if `places` is given.
            places: int64 [b, m], the indices in `documents` for each query. A document of several queries is read once.
        """
        of_queries, of_documents = self.represent(queries, documents)
        for kind, texts, rows in (("queries", queries, of_queries), ("documents", documents, of_documents)):
            where = f"{type(self).__name__}.represent_{kind}"
            refuse(
                len(rows) != len(texts),
                f"returned {len(rows)} rows for {len(texts)} texts",
                where,
                "return one row per text",
            )
        if places is None:
            return self.interact(of_queries[:, None], of_documents.view(len(queries), -1, *of_documents.shape[1:]))
        return self.compare(of_queries, of_documents, places)

    def compare(self, queries: Tensor, documents: Tensor, places: Tensor) -> Tensor:
        """Return scores of represented queries [b, …] with the documents [d, …] at `places` [b, m]. Shape [b, m]."""
        taken = documents.index_select(0, places.flatten().to(documents.device))
        return self.interact(queries[:, None], taken.view(*places.shape, *documents.shape[1:]))

    def penalty(self, step: int) -> Tensor | None:
        """Return a term of the loss for the texts that were read since the last call; None if it has none.

        Args:
            step: the number of updates so far.
        """
        return None

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return next(self.parameters()).device

    def row_parameters(self) -> list[nn.Parameter]:
        """Return the tables of which a batch reads few rows, for which `optimizer=lazy_adam` uses gradients by rows."""
        return []

    def top_parameters(self, layers: int) -> list[nn.Parameter]:
        """Return the parameters of the top `layers` layers."""
        return [parameter for layer in self.layers()[-layers:] for parameter in layer.parameters()]


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Join representations of texts, filled up with 0 to the most tokens if a text has a row per token."""
    most = max((part.shape[1] for part in parts if part.dim() > 1), default=0)
    return torch.cat([
        part if part.dim() < 2 or part.shape[1] == most
        else F.pad(part, (*[0, 0] * (part.dim() - 2), 0, most - part.shape[1]))
        for part in parts
    ])  # fmt: skip


def check_whole(ranker: Ranker, checkpoint: str) -> None:
    """Refuse a ranker with random weights, which must be trained before it scores.

    Args:
        ranker: the ranker, just made.
        checkpoint: its checkpoint, for the message.

    Raises:
        BadInput: if its checkpoint lacks weights.
    """
    remedy = "train it first (pyrite train ranker.checkpoint=… weights=true), or name a checkpoint that is whole"
    refuse(ranker.drawn, f"has no {new_weights(ranker)}: its scores would be random", checkpoint, remedy)


def new_weights(ranker: Ranker) -> str:
    """Return the names of the weights that its checkpoint lacks."""
    names = ranker.drawn
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def linear(inputs: int, outputs: int, generator: torch.Generator, bias: bool = True) -> nn.Linear:
    """Make a fully connected layer, drawn as in torch (uniform within 1/√inputs) but from `generator`."""
    return drawn(nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias), inputs, generator)


def convolution(inputs: int, outputs: int, kernel: tuple[int, int], generator: torch.Generator) -> nn.Conv2d:
    """Make a two-dimensional convolution that keeps its input's size, drawn from `generator`."""
    layer = nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel, padding="same")
    return drawn(layer, inputs * kernel[0] * kernel[1], generator)


def of_inputs(inputs: int) -> float:
    """Return 1/√inputs, within which torch draws the weights of a layer."""
    return 1 / math.sqrt(inputs)


def drawn(layer: Any, inputs: int, generator: torch.Generator) -> Any:
    """Draw the layer's weights and bias uniformly within 1/√inputs."""
    bound = of_inputs(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
