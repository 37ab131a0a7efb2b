"""Defines a cascade of two rankers: a cheap one scores a list, an expensive one its best documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords, Tokenization, read_tokenizer


class Cascade(Ranker):
    """A cascade: a small front ranker scores the whole list, a large rear one its best documents.

    Compressors of different kinds are the future work of Pu et al. 2021. The rear scores the front's best `keep`
    again and ranks them above the others. An objective that scores level by level
    (`pyrite.ranking.objectives.self_involvement` with passes=level) trains the front at level 0 and the rear at all
    others. BM25 as the front needs no cascade: use selector=top over function=bm25 with a single ranker.

    Args:
        generator: draws the weights that the checkpoints lack, the front's first.
        front: makes the ranker of the whole list.
        rear: makes the ranker of the front's best. Both must read the same tokens, e.g. a `BiEncoder` and a
            `CrossEncoder`.
        vectors: word vectors, passed to both.
        checkpoint: ignored; in a configuration the default checkpoint of both.
        preset: ignored; in a configuration the default preset of both.
        keep: the number of documents that the front passes on.

    Raises:
        BadInput: if keep is below 1 or one of the rankers refuses its options.
    """

    reads_apart = False

    @checked
    def __init__(
        self,
        generator: torch.Generator,
        front: Callable[..., Ranker],
        rear: Callable[..., Ranker],
        vectors: NDArray[np.float32] | None = None,
        checkpoint: str | None = None,
        preset: str | None = None,
        keep: Annotated[int, AtLeast(1)] = 16,
    ) -> None:
        super().__init__()
        self.keep = keep
        self.front = front(vectors=vectors, generator=generator)
        self.rear = rear(vectors=vectors, generator=generator)
        self.has_dropout = self.front.has_dropout or self.rear.has_dropout
        self.needs_grad_scaler = self.front.needs_grad_scaler or self.rear.needs_grad_scaler
        # The shape of a text's representation in each of them, taken from a text of one token.
        with torch.no_grad():
            probe = Texts.of([[1]])
            self._queries = [level.represent_queries(probe) for level in (self.front, self.rear)]
            self._documents = [level.represent_documents(probe) for level in (self.front, self.rear)]

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization | None:
        front, rear = (_tokenization(options[level]) for level in ("front", "rear"))
        if front is None and rear is None:
            return None
        if not (isinstance(front, Subwords) and isinstance(rear, Subwords) and same_subwords(front, rear)):
            remedy = "choose checkpoints of one tokenizer, or two rankers that read words"
            raise BadInput("its two levels read different tokens", "ranker.front, ranker.rear", remedy)
        if front.prompts != rear.prompts:
            remedy = "choose checkpoints with the same prompts, or without"
            raise BadInput("its two levels want different prompts", "ranker.front, ranker.rear", remedy)
        longest = (max(front.max_query, rear.max_query), max(front.max_document, rear.max_document))
        return Subwords(front.checkpoint, *longest, front.prompts)

    def at_level(self, level: int) -> Ranker:
        return self.rear if level else self.front

    def represent_queries(self, queries: Texts) -> Tensor:
        return _joined(self.front.represent_queries(queries), self.rear.represent_queries(queries))

    def represent_documents(self, documents: Texts) -> Tensor:
        return _joined(self.front.represent_documents(documents), self.rear.represent_documents(documents))

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        present = torch.ones(documents.shape[:2], dtype=torch.bool, device=documents.device)
        return self.interact_lists(queries, documents, present)

    def interact_lists(self, queries: Tensor, documents: Tensor, present: Tensor) -> Tensor:
        to_front, to_rear = _apart(queries, self._queries)
        of_front, of_rear = _apart(documents, self._documents)
        scores = self.front.interact(to_front, of_front).float()
        order = scores.masked_fill(~present, -torch.inf).sort(dim=1, descending=True, stable=True).indices
        passed = order[:, : self.keep]
        rows = torch.arange(len(scores), device=scores.device)[:, None]
        again = self.rear.interact(to_rear, of_rear[rows, passed]).float()
        # The others keep their distances to each other and start 1 below the last that was passed on.
        others = present.scatter(1, passed, False)
        best = scores.masked_fill(~others, -torch.inf).amax(1, keepdim=True)
        last = again.masked_fill(~present.gather(1, passed), torch.inf).amin(1, keepdim=True)
        return (scores - best + last - 1).scatter(1, passed, again)

    def layers(self) -> list[nn.Module]:
        # The top layers of both are the top: a gradient norm is taken over both levels.
        pairs = zip_longest(reversed(self.front.layers()), reversed(self.rear.layers()))
        layers: list[nn.Module] = [nn.ModuleList([layer for layer in pair if layer is not None]) for pair in pairs]
        return layers[::-1]


def same_subwords(one: Subwords, other: Subwords) -> bool:
    """Return whether two checkpoints split texts in the same way, with any special tokens around them."""
    if one.checkpoint == other.checkpoint:
        return True
    return _cutting(read_tokenizer(one.checkpoint)) == _cutting(read_tokenizer(other.checkpoint))


def _cutting(tokenizer: Any) -> Any:
    """Return everything that a tokenizer's subwords depend on."""
    if not getattr(tokenizer, "is_fast", False):
        return tokenizer.get_vocab()
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    return tokenizer.get_vocab(), [content[part] for part in ("normalizer", "pre_tokenizer", "model")]


def _tokenization(level: Any) -> Tokenization | None:
    """Return the tokenization of a ranker that is not made yet: a class, or a `partial` of one with its options."""
    ranker: Any = partial(level)  # the same for both
    return ranker.func.tokenization(**ranker.keywords)


def _joined(front: Tensor, rear: Tensor) -> Tensor:
    """Concatenate two representations [n, …]. Next to vectors, token ids become floats (exact below 2²⁴)."""
    return torch.cat([front.flatten(1), rear.flatten(1)], 1)


def _apart(joined: Tensor, like: list[Tensor]) -> list[Tensor]:
    """Split what `_joined` concatenated [b, m, …], each part in the shape and type of its example."""
    parts = joined.split([example[0].numel() for example in like], dim=-1)
    return [
        part.reshape(*joined.shape[:-1], *example.shape[1:]).to(example.dtype)
        for part, example in zip(parts, like, strict=True)
    ]
