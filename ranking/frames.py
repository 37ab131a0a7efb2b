"""Defines the text around a query or a document in which it is tokenized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class TextFrame:
    """The text around a query or a document.

    A subword may reach from a text into what is written next to it, so a text is tokenized between its neighbours.
    `before` and `after` are next to it, and their subwords are part of the text's. `left` and `right` are farther out;
    their subwords are the same for every text, and are not kept.

    Args:
        left, before, after, right: the characters around the text.
        skip: the number of subwords of `left`.
        drop: the number of subwords of `right`.
        lead: the number of subwords of `before`.
        tail: the subwords of `after`, which end a text that is cut.
        strip: whether blanks at the text's ends are removed.
        filled: whether a text without any subword gets an unknown one.
    """

    left: str = ""
    before: str = ""
    after: str = ""
    right: str = ""
    skip: int = 0
    drop: int = 0
    lead: int = 0
    tail: tuple[int, ...] = ()
    strip: bool = False
    filled: bool = True

    @classmethod
    def of_prompt(cls, tokenizer: Any, prompt: str) -> TextFrame:
        """Return the frame of a text after a prompt."""
        return cls(before=prompt, lead=count_subwords(tokenizer, prompt)) if prompt else cls()

    @classmethod
    def between(cls, tokenizer: Any, parts: tuple[str, str, str, str], strip: bool) -> TextFrame:
        """Return the frame of a text between `left, before, after, right`, with its counts."""
        left, before, after, right = parts
        encoded = encode_whole(tokenizer, "".join([left, before, "a", after, right]))
        start, text, end = len(left), len(left + before), len(left + before) + 1 + len(after)
        skip = sum(stop <= start for _, stop in encoded.offsets)
        drop = sum(begin >= end for begin, _ in encoded.offsets)
        lead = sum(stop <= text for _, stop in encoded.offsets) - skip
        tail = [number for number, (begin, _) in zip(encoded.ids, encoded.offsets, strict=True) if text < begin < end]
        return cls(left, before, after, right, skip, drop, lead, tuple(tail), strip, filled=False)

    def with_prompt(self, tokenizer: Any, prompt: str) -> TextFrame:
        """Return the frame with another prompt; within a template, with a text before the query."""
        lead = count_subwords(tokenizer, prompt)
        if self.left or self.right:
            return replace(self, before=self.before + prompt, lead=self.lead + lead)
        return replace(self, before=prompt, lead=lead)

    @property
    def added(self) -> int:
        """The number of subwords that it adds to a text."""
        return self.lead + len(self.tail)

    def around(self, text: str) -> str:
        """Return the text with what is around it."""
        return f"{self.left}{self.before}{text.strip() if self.strip else text}{self.after}{self.right}"

    def of_text(self, ids: list[int], limit: int) -> list[int]:
        """Return the text's first `limit` subwords.

        Args:
            ids: the subwords of `around(text)`, cut at `reach(limit)`.
        """
        whole = len(ids) < self.reach(limit)
        return (ids[self.skip : len(ids) - self.drop] if whole else ids[self.skip :])[:limit]

    def reach(self, limit: int) -> int:
        """Return the number of subwords to read of a text and what is around it; as many only if the text is cut."""
        return self.skip + limit + self.drop + 1 if self.drop else self.skip + limit


def encode_whole(tokenizer: Any, text: str) -> Any:
    """Return a text's subwords and their places by a fast tokenizer, whose file may ask for padding and truncation."""
    inner = tokenizer.backend_tokenizer
    inner.no_padding()
    inner.no_truncation()
    return inner.encode(text, add_special_tokens=False)


def count_subwords(tokenizer: Any, prompt: str) -> int:
    """Return the number of subwords of a prompt."""
    return len(tokenizer(prompt, add_special_tokens=False)["input_ids"]) if prompt else 0
