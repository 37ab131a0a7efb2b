"""Packs a query and a document into one sequence, as a pretrained model was taught to read two texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

PROBE = "a b"
PASSES = 16
"""A further pass costs about as much as this share of the tokens that one holds."""


@dataclass(frozen=True)
class Packing:
    """The special tokens before, between and behind two texts, and the token types of each part.

    Args:
        before, between, behind: ids, e.g. [CLS], [SEP], [SEP].
        types: of before, first text, between, second text, behind; None where the model has no types.
        padding: id behind the end of a shorter sequence.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    behind: tuple[int, ...]
    types: tuple[int, ...] | None
    padding: int

    @classmethod
    def of(cls, tokenizer: Any, pair: bool = True) -> Packing:
        """Read off a tokenizer, by having it pack two texts; with `pair` False one alone (`between` is empty)."""
        packed = tokenizer(*([PROBE] * (2 if pair else 1)), add_special_tokens=True)
        ids, owners = packed["input_ids"], packed.sequence_ids()
        first = [place for place, owner in enumerate(owners) if owner == 0]
        second = [place for place, owner in enumerate(owners) if owner == 1] if pair else [len(ids)]
        last = second[-1] + 1 if pair else first[-1] + 1
        bounds = (0, first[0], first[-1] + 1, second[0] if pair else last, last, len(ids))
        parts = [list(range(start, stop)) for start, stop in itertools.pairwise(bounds)]
        types = None
        if "token_type_ids" in packed:
            of_place = packed["token_type_ids"]
            types = tuple(of_place[part[0]] if part else 0 for part in parts)
        before, _, between, _, behind = (tuple(ids[place] for place in part) for part in parts)
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        return cls(before, between, behind, types, padding)

    @property
    def specials(self) -> int:
        """Special tokens of a sequence."""
        return len(self.before) + len(self.between) + len(self.behind)

    def pack(self, first: Tensor, second: Tensor | None = None) -> dict[str, Tensor]:
        """Sequences of the texts in two matrices, row by row.

        Args:
            first, second: int [n, …], ids plus one with 0 behind a text's end (`ranking.tokenization`).

        Returns:
            input_ids, attention_mask and, where the model has them, token_type_ids, int64 [n, longest].
        """
        device = first.device
        texts = [first, second if second is not None else first[:, :0]]
        lengths = [(text > 0).sum(1, keepdim=True) for text in texts]
        sizes: list[int | Tensor] = [len(self.before), lengths[0], len(self.between), lengths[1], len(self.behind)]
        longest = self.specials + int((lengths[0] + lengths[1]).max()) if len(first) else self.specials
        place = torch.arange(longest, device=device).expand(len(first), longest)
        ids = torch.full(place.shape, self.padding, device=device)
        types = torch.zeros_like(ids)
        start: int | Tensor = 0
        for number, size in enumerate(sizes):
            inside = (place >= start) & (place < start + size)
            if number % 2:
                text = texts[number // 2]
                if text.shape[1]:
                    taken = text.gather(1, (place - start).clamp(0, text.shape[1] - 1)).long() - 1
                    ids = torch.where(inside, taken, ids)
            elif isinstance(size, int) and size:
                specials = torch.tensor((self.before, self.between, self.behind)[number // 2], device=device)
                ids = torch.where(inside, specials[(place - start).clamp(0, size - 1)], ids)
            if self.types is not None and self.types[number]:
                types = torch.where(inside, self.types[number], types)
            start = start + size
        packed = {"input_ids": ids, "attention_mask": (place < start).long()}
        return packed if self.types is None else packed | {"token_type_ids": types}


def buckets(lengths: Tensor, budget: int) -> Iterator[Tensor]:
    """Places of sequences of like length, together at most `budget` tokens with their padding.

    A bucket ends before its padding costs more than a pass of its own.

    Args:
        lengths: int64 [n], tokens of each sequence.
        budget: tokens a bucket; one sequence may take more.
    """
    order = torch.argsort(lengths, stable=True)
    ascending = lengths[order].tolist()
    start = total = 0
    for place, length in enumerate(ascending):
        # The sequence at `place` would be the longest of its bucket: all others are padded to it.
        size = (place - start + 1) * length
        if place > start and (size > budget or size - total - length > budget // PASSES):
            yield order[start:place]
            start, total = place, 0
        total += length
    if start < len(ascending):
        yield order[start:]
