"""Defines the base of every ranker."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ranking.errors import BadInput
from ranking.shared_weights import SharedWeights
from ranking.texts import Texts
from ranking.tokenization import Tokenization


class Ranker(nn.Module, ABC):
    """Scores documents for queries, in three steps that keep scoring many candidates cheap.

    A query and a document are each represented once, by whatever part of the network depends on
    one of them alone; `interact` does what depends on the pair. A collection's candidates are
    then scored at the price of their distinct documents plus the interactions (`ranking.scoring`).

    A subclass takes `vectors`, `generator` and its own widths, each None where `preset` decides. One with an option
    `categories`, whether texts come with category and subcategory as input, takes `labels` too: how many there are
    (`ranking.rankers.category_input`).

    Args:
        presets: the widths by preset name; `paper` as published, `small` for a CPU, `tiny` for tests.
        pairs: how many should interact at once where many are scored: few enough that what lies between two
            layers stays in a core's cache.
        held: how many documents' representations should be held at once.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    pairs: ClassVar[int] = 2048
    held: ClassVar[int] = 1 << 18
    reads_apart: ClassVar[bool] = True
    """Whether most of its work is in representing texts, query and document apart."""
    has_dropout: bool = False
    """Whether it draws dropout masks while it is trained."""
    needs_grad_scaler: bool = False
    """Whether it computes in float16, whose gradients need a scaled loss."""

    sharding: SharedWeights | None = None
    """How its weights are split over workers; None where they are here."""
    document_reach: int | None = None
    """Tokens of a document that it reads, where that is fewer than the collection has: texts that differ only
    behind them are alike."""

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization | None:
        """How texts become the tokens that it reads; None where it reads the words of `encoding`.

        Args:
            options: of its constructor.
        """
        return None

    @classmethod
    def resolve_preset(cls, preset: str, **given: Any) -> dict[str, Any]:
        """The preset's widths, with those that are given (not None) in their place."""
        if preset not in cls.presets:
            raise BadInput(f"no preset {preset!r}", "ranker.preset", f"choose one of {', '.join(cls.presets)}")
        for name, value in given.items():
            if value is not None and any(width < 1 for width in (value if isinstance(value, Sequence) else [value])):
                raise BadInput(f"{name} is {value}", f"ranker.{name}", "choose numbers from 1 up")
        return cls.presets[preset] | {name: value for name, value in given.items() if value is not None}

    @abstractmethod
    def represent_queries(self, queries: Texts) -> Tensor:
        """One row a query. Shape [queries, …]."""

    @abstractmethod
    def represent_documents(self, documents: Texts) -> Tensor:
        """One row a document. Shape [documents, …]."""

    @abstractmethod
    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Scores of represented queries [b, 1, …] with represented documents [b, m, …]. Shape [b, m]."""

    def interact_lists(self, queries: Tensor, documents: Tensor, present: Tensor) -> Tensor:
        """As `interact`, for whole lists: where a document's score depends on those beside it, absent ones don't count.

        Args:
            queries, documents: as of `interact`.
            present: bool [b, m]; where it is False the score is of no use.
        """
        return self.interact(queries, documents)

    @abstractmethod
    def layers(self) -> list[nn.Module]:
        """Its layers with weights, from the input up: the gradient norm is taken over the last ones."""

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        """Both, for a ranker that reads them in one go."""
        return self.represent_queries(queries), self.represent_documents(documents)

    def forward(self, queries: Texts, documents: Texts, places: Tensor | None = None) -> Tensor:
        """Scores of `b` queries with `m` documents each.

        Args:
            queries: `b` texts.
            documents: `b·m` texts, query by query; or any number of them, where `places` says whose they are.
            places: int64 [b, m], which of `documents` is each query's. A document of several queries is read once.

        Returns:
            Shape [b, m].
        """
        of_queries, of_documents = self.represent(queries, documents)
        if places is None:
            return self.interact(of_queries[:, None], of_documents.view(len(queries), -1, *of_documents.shape[1:]))
        return self.compare(of_queries, of_documents, places)

    def compare(self, queries: Tensor, documents: Tensor, places: Tensor) -> Tensor:
        """Scores of represented queries [b, …] with those of the documents [d, …] at `places` [b, m]. Shape [b, m]."""
        taken = documents.index_select(0, places.flatten().to(documents.device))
        return self.interact(queries[:, None], taken.view(*places.shape, *documents.shape[1:]))

    def at_level(self, level: int) -> Ranker:
        """What scores a block at a level of compression (`ranking.objectives.self_involvement`), 0 the first."""
        return self

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    def row_parameters(self) -> list[nn.Parameter]:
        """Tables of which a batch reads few rows: what `optimizer=lazy_adam` wants gradients by rows of."""
        return []

    def top_parameters(self, layers: int) -> list[nn.Parameter]:
        """Parameters of the top `layers` layers."""
        return [parameter for layer in self.layers()[-layers:] for parameter in layer.parameters()]


def linear(inputs: int, outputs: int, generator: torch.Generator, bias: bool = True) -> nn.Linear:
    """A fully connected layer, drawn as torch draws it (uniform within 1/√inputs) but from `generator`."""
    with torch.random.fork_rng(devices=[]):  # torch draws weights of its own, which the next line replaces
        layer = nn.Linear(inputs, outputs, bias=bias)
    return drawn(layer, inputs, generator)


def convolution(inputs: int, outputs: int, kernel: tuple[int, int], generator: torch.Generator) -> nn.Conv2d:
    """A two-dimensional convolution that keeps its input's size, drawn from `generator`."""
    with torch.random.fork_rng(devices=[]):
        layer = nn.Conv2d(inputs, outputs, kernel, padding="same")
    return drawn(layer, inputs * kernel[0] * kernel[1], generator)


def of_inputs(inputs: int) -> float:
    """1/√inputs, within which torch draws the weights of a layer."""
    return 1 / math.sqrt(inputs)


def drawn(layer: Any, inputs: int, generator: torch.Generator) -> Any:
    """The layer with weights and bias drawn uniformly within 1/√inputs."""
    bound = of_inputs(inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
