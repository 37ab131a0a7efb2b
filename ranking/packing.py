"""Packs a query and a document into one sequence, as a pretrained model was trained to read two texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

PROBE = "a b"
PASSES = 16
"""A further pass costs about as much as this share of its tokens on a CPU."""


class PassCost(NamedTuple):
    """The cost of a pass on a device, by which sequences are cut into passes.

    Args:
        budget: tokens per pass.
        passes: a further pass costs about as much as this share of the budget.
        multiple: sequences are padded to a multiple of this number of tokens.
    """

    budget: int
    passes: int = PASSES
    multiple: int = 1


PASS_COSTS = {"cpu": PassCost(2048), "cuda": PassCost(65536, 4, 8)}
"""By device: a CPU reads as many tokens as fit in a core's cache. A GPU must be filled: it starts hundreds of kernels a
pass, and multiplies by eights. Few passes also have few shapes."""


@dataclass(frozen=True)
class Packing:
    """The special tokens before, between and after two texts, and the token types of each part.

    Args:
        before: ids before the first text, e.g. [CLS].
        between: ids between the texts, e.g. [SEP].
        behind: ids after the second text, e.g. [SEP].
        types: the token types of before, first text, between, second text, behind, one per special token and one per
            text. None if the model has no types.
        padding: the id after the end of a shorter sequence.
        left: whether shorter sequences begin later instead, so that all end in the last column.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    behind: tuple[int, ...]
    types: tuple[tuple[int, ...], ...] | None
    padding: int
    left: bool = False

    @classmethod
    def of(cls, tokenizer: Any, pair: bool = True) -> Packing:
        """Read the special tokens of a tokenizer from two packed texts, or from one if not `pair` (empty `between`)."""
        packed = tokenizer(*([PROBE] * (2 if pair else 1)), add_special_tokens=True)
        ids, owners = packed["input_ids"], packed.sequence_ids()
        spans = [(owners.index(text), len(owners) - owners[::-1].index(text)) for text in range(1 + pair)]
        start, stop = spans[0]
        second = spans[1] if pair else (stop, stop)
        parts = list(map(slice, (0, start, stop, *second), (start, stop, *second, len(ids))))
        kinds = packed.get("token_type_ids")
        types = None if kinds is None else tuple(tuple(kinds[part]) for part in parts)
        before, _, between, _, behind = (tuple(ids[part]) for part in parts)
        return cls(before, between, behind, types, tokenizer.pad_token_id or 0)

    @property
    def specials(self) -> int:
        """The number of special tokens of a sequence."""
        return len(self.before) + len(self.between) + len(self.behind)

    def pack(self, first: Tensor, second: Tensor | None = None, multiple: int = 1) -> dict[str, Tensor]:
        """Return the sequences of the texts in two matrices, row by row.

        Args:
            first, second: int [n, …], ids plus one with 0 after a text's end (`pyrite.ranking.tokenization`).
            multiple: rows are padded to a multiple of this number of tokens.

        Returns:
            input_ids, attention_mask and, if the model has them, token_type_ids, int64 [n, longest]; position_ids too
            if sequences begin later.
        """
        device = first.device
        texts = [first, second if second is not None else first[:, :0]]
        lengths = [(text > 0).sum(1, keepdim=True) for text in texts]
        sizes: list[int | Tensor] = [len(self.before), lengths[0], len(self.between), lengths[1], len(self.behind)]
        longest = self.specials + int((lengths[0] + lengths[1]).max()) if len(first) else self.specials
        longest += -longest % multiple
        position = torch.arange(longest, device=device).expand(len(first), longest)
        if self.left:
            position = position - (longest - self.specials - lengths[0] - lengths[1])
        ids = torch.full(position.shape, self.padding, device=device)
        types = torch.zeros_like(ids)
        start: int | Tensor = 0
        for number, size in enumerate(sizes):
            inside = (position >= start) & (position < start + size)
            if number % 2:
                text = texts[number // 2]
                if text.shape[1]:
                    taken = text.gather(1, (position - start).clamp(0, text.shape[1] - 1)).long() - 1
                    ids = torch.where(inside, taken, ids)
            elif isinstance(size, int) and size:
                specials = torch.tensor((self.before, self.between, self.behind)[number // 2], device=device)
                ids = torch.where(inside, specials[(position - start).clamp(0, size - 1)], ids)
            if self.types is not None and any(self.types[number]):
                some = torch.tensor(self.types[number], device=device)
                types = torch.where(inside, some[(position - start).clamp(0, len(some) - 1)], types)
            start = start + size
        packed = {"input_ids": ids, "attention_mask": ((position >= 0) & (position < start)).long()}
        if self.left:
            packed["position_ids"] = position.clamp(min=0)
        return packed if self.types is None else packed | {"token_type_ids": types}


def buckets(lengths: Tensor, budget: int, passes: int = PASSES) -> Iterator[Tensor]:
    """Yield the indices of sequences of similar length, together at most `budget` tokens with their padding.

    A bucket ends before its padding costs more than another pass.

    Args:
        budget: tokens per bucket; one sequence may take more.
        passes: see `PassCost`.
    """
    order = torch.argsort(lengths, stable=True)
    ascending = lengths[order].tolist()
    start = total = 0
    for index, length in enumerate(ascending):
        # The sequence at `index` would be the longest of its bucket: all others are padded to it.
        size = (index - start + 1) * length
        if index > start and (size > budget or size - total - length > budget // passes):
            yield order[start:index]
            start, total = index, 0
        total += length
    if start < len(ascending):
        yield order[start:]
