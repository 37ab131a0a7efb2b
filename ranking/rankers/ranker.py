"""Defines the base of every ranker."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from pyrite.ranking.errors import BadInput
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization


class SharedWeights(Protocol):
    """Workers that hold parts of one ranker (`pyrite.ranking.sharding.Sharding`)."""

    def passes(self, tower: Any, count: int) -> int:
        """Return the passes that all workers make next through a transformer, of which this one needs `count`."""

    def finish(self) -> None:
        """Make empty passes until all workers have finished."""

    def most(self, count: int) -> int:
        """Return the largest of all workers' counts."""

    def split_state(self, state: dict[str, Any], ranker: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return a training's state with its tensors split like the ranker's weights."""


class Ranker(nn.Module, ABC):
    """The base of all rankers: scores documents for queries, in three steps that keep many candidates cheap.

    A query and a document are each represented once, by the part of the network that depends on
    one of them alone; `interact` computes what depends on the pair. A collection's candidates are
    then scored at the cost of their distinct documents plus the interactions (`pyrite.ranking.scoring`).

    A subclass takes `vectors`, `generator` and its widths, each None to use the `preset`. A subclass with an option
    `categories` (texts come with category and subcategory as input) takes `labels` too, their numbers
    (`pyrite.ranking.rankers.category_input`).

    Attributes:
        presets: the widths by preset name: `paper` as published, `small` for a CPU, `tiny` for tests.
        pairs: the number of pairs that should interact at once: few enough that the data between two layers stays in
            a core's cache.
        held: the number of documents whose representations should be held at once.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    pairs: ClassVar[int] = 2048
    held: ClassVar[int] = 1 << 18
    reads_apart: ClassVar[bool] = True
    """Whether most of its work is in representing texts, query and document separately."""
    has_dropout: bool = False
    """Whether it draws dropout masks during training."""
    needs_grad_scaler: bool = False
    """Whether it computes in float16, whose gradients need a scaled loss."""

    drawn: Sequence[str] = ()
    """The names of the weights that its checkpoint lacks, and that are drawn."""
    sharding: SharedWeights | None = None
    """How its weights are split over workers. None if they are all here."""
    document_reach: int | None = None
    """Tokens that it reads of a document, if that is fewer than the collection has: texts that differ only after
    them are alike."""

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization | None:
        """Return how texts become the tokens that it reads; None if it reads the words of `pyrite.ranking.encoding`.

        Args:
            options: options of its constructor.
        """
        return None

    @classmethod
    def resolve_preset(cls, preset: str, **given: Any) -> dict[str, Any]:
        """Return the preset's widths, replaced by those that are given (not None)."""
        if preset not in cls.presets:
            raise BadInput(f"no preset {preset!r}", "ranker.preset", f"choose one of {', '.join(cls.presets)}")
        for name, value in given.items():
            if value is not None and any(width < 1 for width in (value if isinstance(value, Sequence) else [value])):
                raise BadInput(f"{name} is {value}", f"ranker.{name}", "choose numbers from 1 up")
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

    def interact_lists(self, queries: Tensor, documents: Tensor, present: Tensor) -> Tensor:
        """Return scores of whole lists, for rankers whose scores depend on the other documents of the list.

        Args:
            queries: represented queries, as in `interact`.
            documents: represented documents, as in `interact`.
            present: bool [b, m]. If it is False the document does not count and its score is not used.
        """
        return self.interact(queries, documents)

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
            if len(rows) != len(texts):
                where = f"{type(self).__name__}.represent_{kind}"
                raise BadInput(f"returned {len(rows)} rows for {len(texts)} texts", where, "return one row per text")
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

    def at_level(self, level: int) -> Ranker:
        """Return the ranker for a level of compression (`pyrite.ranking.objectives.self_involvement`), 0 the first."""
        return self

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


def check_whole(ranker: Ranker, checkpoint: str) -> None:
    """Refuse a ranker with random weights, which must be trained before it scores.

    Args:
        ranker: the ranker, just made.
        checkpoint: its checkpoint, for the message.

    Raises:
        BadInput: if its checkpoint lacks weights.
    """
    if ranker.drawn:
        remedy = "train it first (pyrite train ranker.checkpoint=… weights=true), or name a checkpoint that is whole"
        raise BadInput(f"has no {new_weights(ranker)}: its scores would be random", checkpoint, remedy)


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
