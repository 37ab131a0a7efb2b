"""Encodes texts with a model of sentence-transformers or PyLate, or with a function of the user's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.texts import Texts

Encode = Callable[[list[str], str], Any]
"""Returns a vector per text, as an array or tensor [texts, dimension]. The second argument is `query` or `document`."""
COLUMNS = {"query": "query", "document": "positive"}
"""The column of the data set whose prompt and route each kind of text has."""


def as_bytes(texts: Sequence[str]) -> Texts:
    """Return texts whose tokens are their UTF-8 bytes, each increased by one."""
    return Texts.of_arrays(np.frombuffer(text.encode(), np.uint8).astype(np.int32) + 1 for text in texts)


def as_strings(texts: Texts) -> list[str]:
    """Return the texts of `as_bytes`."""
    content = (np.asarray(texts.tokens) - 1).astype(np.uint8).tobytes()
    return [content[first:last].decode() for first, last in zip(texts.offsets[:-1], texts.offsets[1:], strict=True)]


class TextEncoder(DenseRanker):
    """A model of the user's as a ranker that the negative index can read texts with: `as_bytes` are its tokens.

    Attributes:
        prompts: the prompt of each kind of text, as the trainer adds it; None for the model's own.
        routes: the route of each kind through a model with several, as the trainer's `router_mapping` names it.
        lists_only: whether its vectors are not searched by an index, so that a version keeps lists alone.
    """

    lists_only = False

    def __init__(self) -> None:
        super().__init__()
        self.prompts: dict[str, str] | None = None
        self.routes: dict[str, str] = {}
        self._dimension = 0
        self._trained: set[str] = set()  # names of weights that training has changed so far

    @abstractmethod
    def encode(self, texts: list[str], kind: str) -> Any:
        """Return the vectors of texts that are queries or documents."""

    @property
    def dimension(self) -> int:
        self._dimension = self._dimension or int(self._read(["a"], "query").shape[1])
        return self._dimension

    def represent_queries(self, queries: Texts) -> Tensor:
        return self._read(as_strings(queries), "query")

    def represent_documents(self, documents: Texts) -> Tensor:
        return self._read(as_strings(documents), "document")

    def layers(self) -> list[nn.Module]:
        return list(self.children())

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = False, assign: bool = False) -> Any:
        """Load some of the weights: those that are trained."""
        return super().load_state_dict(state_dict, strict, assign)

    def trained_weights(self) -> dict[str, Tensor]:
        """Return the weights that training changes, or changed before it froze them, by name: of a model with
        adapters, these alone."""
        self._trained |= {name for name, weight in self.named_parameters() if weight.requires_grad}
        changing = self._trained | {name for name, _ in self.named_buffers()}
        return {name: weight for name, weight in self.state_dict().items() if name in changing}

    def stands_still(self, trained: nn.Module) -> bool:
        """Return whether none of its weights changes when a model is trained; those of a function are unknown."""
        weights, changing = list(self.parameters()), {id(weight) for weight in trained.parameters()}
        return bool(weights) and not any(id(weight) in changing for weight in weights)

    def _read(self, texts: list[str], kind: str) -> Tensor:
        read = self.encode(texts, kind)
        vectors = torch.as_tensor(read.detach().cpu() if isinstance(read, Tensor) else np.asarray(read)).float()
        refuse(
            vectors.ndim != 2 or len(vectors) != len(texts),
            f"returned an array of shape {tuple(vectors.shape)} for {len(texts)} texts",
            "encode",
            "return one vector per text: [texts, dimension]",
        )
        return vectors


class ModelEncoder(TextEncoder):
    """A SentenceTransformer, compared by cosine or inner product as the model specifies."""

    similarities: ClassVar[tuple[str, ...]] = ("cosine", "dot")
    """The ways of comparing that a version can search by."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        similarity = str(getattr(model, "similarity_fn_name", None) or self.similarities[0]).lower()
        what = f"compares by {similarity}, and its index would by {' or '.join(self.similarities)}"
        remedy = f'set model.similarity_fn_name = "{self.similarities[0]}"'
        refuse(similarity not in self.similarities, what, type(model).__name__, remedy)
        self.unit = similarity == "cosine"

    def encode(self, texts: list[str], kind: str) -> Any:
        return self._encode(texts, kind, normalize_embeddings=self.unit)

    def _encode(self, texts: list[str], kind: str, **options: Any) -> Any:
        options |= {"convert_to_tensor": True, "show_progress_bar": False}
        if self.prompts is None:  # as the model's own
            return getattr(self.model, f"encode_{kind}")(texts, **options)
        if route := self.routes.get(kind):
            options["task"] = route
        return self.model.encode(texts, prompt=self.prompts.get(kind, ""), **options)


class SparseModelEncoder(ModelEncoder):
    """A SparseEncoder: few of a vector's numbers are not 0."""

    sparse = lists_only = True

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.unit = False

    def encode(self, texts: list[str], kind: str) -> Any:
        return self._encode(texts, kind, convert_to_sparse_tensor=False)


class TokenModelEncoder(ModelEncoder):
    """A model with a vector per token, as PyLate's ColBERT: texts are compared by the sum of maxima."""

    lists_only = True
    similarities = ("maxsim",)

    def encode(self, texts: list[str], kind: str) -> Any:
        """Return a list of arrays [tokens, dimension]."""
        options: dict[str, Any] = {"show_progress_bar": False}
        if "is_query" in signature(self.model.encode).parameters:  # PyLate
            read = self.model.encode(texts, is_query=kind == "query", **options)
        else:
            read = getattr(self.model, f"encode_{kind}")(texts, **options)
        return [np.asarray(each.detach().cpu() if isinstance(each, Tensor) else each, np.float32) for each in read]


class FunctionEncoder(TextEncoder):
    """A function of the user's own, which runs in the training's process."""

    def __init__(self, function: Encode) -> None:
        super().__init__()
        self.function = function

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")  # where `_read` puts vectors

    def encode(self, texts: list[str], kind: str) -> Any:
        read, remedy = self.function(texts, kind), "return one vector of finite numbers per text: [texts, dimension]"
        refuse(read is None, "returned nothing", "encode", remedy)
        try:
            vectors = read if isinstance(read, Tensor) else torch.from_numpy(np.array(read, np.float32))
        except (TypeError, ValueError):
            raise BadInput(f"returned a {type(read).__name__} that is no array", "encode", remedy) from None
        refuse(not torch.isfinite(vectors).all(), "returned NaN or infinite numbers", "encode", remedy)
        return vectors


BY_CLASS: dict[str, type[ModelEncoder]] = {
    "SparseEncoder": SparseModelEncoder, "MultiVectorEncoder": TokenModelEncoder, "ColBERT": TokenModelEncoder,
    "SentenceTransformer": ModelEncoder,
}  # fmt: skip
"""The encoder of each class of models, by the name of the class or of a base."""


def encoder_of(model: Any, encode: Encode | None) -> TextEncoder | None:
    """Return the encoder of what the user gave; None if neither is given.

    Raises:
        BadInput: if both are given, or the model has no vectors of texts.
    """
    if model is not None and encode is not None:
        raise BadInput("model and encode are both given", "Negatives", "leave one of them out")
    if encode is not None:
        refuse(isinstance(encode, nn.Module), "is a model", "encode", "give it as model=")
        try:
            signature(encode).bind([], "query")
        except TypeError as error:
            raise BadInput(f"{error}", "encode", "define it as encode(texts, kind)") from None
        return FunctionEncoder(encode)
    if model is None:
        return None
    for kind in type(model).__mro__:
        if kind.__name__ in BY_CLASS:
            return BY_CLASS[kind.__name__](model)
    what = f"{type(model).__name__} has no vectors of texts"
    remedy = "give model= a SentenceTransformer, a SparseEncoder or a ColBERT, or encode=, a function of texts and kind"
    raise BadInput(what, "model", remedy)


@contextmanager
def reading(encoder: TextEncoder) -> Iterator[None]:
    """Read texts without dropout and gradients within, and give each layer its mode back."""
    modes = [(module, module.training) for module in encoder.modules()]
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def max_sim(queries: Sequence[NDArray[np.float32]], documents: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the sums over a query's tokens of their largest inner products with a document's, [queries, documents]."""
    tokens = torch.from_numpy(np.concatenate(documents))
    counts = torch.tensor([len(each) for each in documents])
    owner = torch.repeat_interleave(torch.arange(len(documents)), counts)
    rows = []
    for query in queries:
        products = torch.from_numpy(query) @ tokens.T
        best = torch.full((len(query), len(documents)), -torch.inf)
        rows.append(best.scatter_reduce(1, owner.expand(len(query), -1), products, "amax").sum(0))
    return torch.stack(rows).numpy()
