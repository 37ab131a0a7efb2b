"""Turns texts into the tokens that a ranker reads if those are not our words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.digest import texts_read_by
from pyrite.ranking.frames import TextFrame, count_subwords
from pyrite.ranking.hub_tokenizers import local_root, read_tokenizer, refused
from pyrite.ranking.text_pieces import Encode
from pyrite.ranking.texts import Texts

__all__ = ["Prompts", "Subwords", "Tokenization", "Tokens", "count_subwords", "read_tokenizer", "refused", "subwords"]

CHUNK = 100
"""Texts that a tokenizer receives at once: it holds ten times their size until it has read all of them."""


@dataclass(frozen=True)
class Tokens:
    """A collection's texts as token ids; 0 never occurs in them."""

    documents: Texts
    queries: Texts


@dataclass(frozen=True)
class Prompts:
    """The texts before each query and each document; empty for none."""

    query: str = ""
    document: str = ""


class Tokenization(ABC):
    """The base of tokenizations: makes the tokens of a collection once for all runs whose rankers read the same ones.

    Attributes:
        remark: a remark on the tokens that it made last.
    """

    remark: str = ""

    @abstractmethod
    def key(self) -> list[Any]:
        """Return everything that the tokens depend on except the collection, as JSON."""

    @abstractmethod
    def encode(self, collection: Collection) -> Tokens:
        """Return the tokens of its documents and queries."""

    def cut(self, tokens: Tokens) -> str:
        """Return a line that counts the texts of which only the beginning is read; empty if there are none."""
        return ""

    def of_documents(self) -> Callable[[], Encode] | None:
        """Return a maker of the function that encodes a frame of documents; None if they are encoded all together."""
        return None

    def of_queries(self, collection: Collection) -> Texts:
        """Return the tokens of a collection's queries, if `of_documents` encodes its documents."""
        raise NotImplementedError


class Subwords(Tokenization):
    """The subwords of a pretrained model, without its special tokens.

    Ids are the tokenizer's plus one, so 0 is free for padding, whatever the tokenizer pads with. Of a text that is
    longer than its limit one subword more than is read is kept, so that such texts can be counted.

    Args:
        checkpoint: a folder, or a name at the hub.
        max_query: subwords read of a query.
        max_document: subwords read of a document.
        prompts: the texts that the checkpoint needs before each text; their subwords do not count as read.
        frames: the frames in which queries and documents are tokenized, instead of prompts.
        room: returns the subwords of a query and a document together at most, if they are read together.
    """

    def __init__(
        self,
        checkpoint: str,
        max_query: int,
        max_document: int,
        prompts: Prompts | None = None,
        room: Callable[[], int] | None = None,
        frames: tuple[TextFrame, TextFrame] | None = None,
    ) -> None:
        self.checkpoint, self.max_query, self.max_document = checkpoint, max_query, max_document
        self.prompts, self.room, self.frames = prompts or Prompts(), room, frames

    def key(self) -> list[Any]:
        contents = texts_read_by(Path(local_root(self.checkpoint)))
        prompts: list[Any] = [vars(self.prompts)] if self.prompts != Prompts() else []
        prompts += [[asdict(frame) for frame in self.frames]] if self.frames else []
        return [
            "subwords, one and the prompts' lengths",
            contents or self.checkpoint,
            self.max_query,
            self.max_document,
            *prompts,
        ]

    def cut(self, tokens: Tokens) -> str:
        both = (tokens.queries, tokens.documents)
        lengths = [
            texts.lengths - (frame.added if texts.added is None else texts.added)
            for texts, frame in zip(both, self._frames(), strict=True)
        ]
        limits = [self.max_query, self.max_document]
        if self.room is not None:  # query and document share it
            room, longest = self.room(), [int(each.max(initial=0)) for each in lengths]
            limits = [
                min(limit, max(room // 2, room - other)) for limit, other in zip(limits, longest[::-1], strict=True)
            ]
        counts = [int((each > limit).sum()) for each, limit in zip(lengths, limits, strict=True)]
        rows = zip(("queries", "documents"), counts, lengths, limits, strict=True)
        beside = "" if self.room is None else " next to the longest other text"
        parts = [
            f"{count:,} of {len(each):,} {name} have more than {limit:,}{beside}"
            for name, count, each, limit in rows if count
        ]  # fmt: skip
        return f"subwords: {' and '.join(parts)}, and no more of them is read" if parts else ""

    def encode(self, collection: Collection) -> Tokens:
        return Tokens(self.of_documents()()(collection.documents), self.of_queries(collection))

    def of_documents(self) -> Callable[[], Encode]:
        return partial(subword_encoder, self.checkpoint, self.max_document + 1, self._frames()[1])

    def of_queries(self, collection: Collection) -> Texts:
        queries = collection.queries
        if "prompt" not in queries.columns:
            return self.after_prompt(queries["text"], None)[0]
        parts = queries.select("text", "prompt").with_row_index("row").partition_by("prompt", maintain_order=True)
        texts = replace(Texts.of([]), added=np.zeros(0, np.int64))
        for part in parts:
            read, added = self.after_prompt(part["text"], part["prompt"][0])
            texts = texts.followed_by(replace(read, added=np.full(len(read), added, np.int64)))
        rows = [part["row"].to_numpy() for part in parts]
        return texts.take(np.argsort(np.concatenate([np.zeros(0, np.int64), *rows]), kind="stable"))

    def after_prompt(self, texts: pl.Series, prompt: str | None) -> tuple[Texts, int]:
        """Return the tokens of queries after one prompt (None is the ranker's), and how many of each are not its own.

        The limit of a query does not count those.
        """
        tokenizer, around = read_tokenizer(self.checkpoint), self._frames()[0]
        frame = around if prompt is None else around.with_prompt(tokenizer, prompt)
        return subwords(tokenizer, texts, self.max_query + 1, frame), frame.added

    def _frames(self) -> tuple[TextFrame, TextFrame]:
        """Return the frames of queries and documents."""
        if self.frames is not None:
            return self.frames
        prompts = (self.prompts.query, self.prompts.document)
        tokenizer = read_tokenizer(self.checkpoint) if any(prompts) else None
        query, document = (TextFrame.of_prompt(tokenizer, prompt) for prompt in prompts)
        return query, document


def subword_encoder(checkpoint: str, limit: int, around: TextFrame) -> Encode:
    """Return the function that encodes texts by a checkpoint's tokenizer."""
    tokenizer = read_tokenizer(checkpoint)
    return lambda frame: subwords(tokenizer, frame["text"], limit, around)


NO_FRAME = TextFrame()


def subwords(tokenizer: Any, texts: pl.Series, limit: int, around: TextFrame = NO_FRAME) -> Texts:
    """Return the first `limit` subwords of each text in its frame, see `TextFrame`."""
    limit += around.added
    unknown = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else tokenizer.pad_token_id
    nothing = [unknown] if around.filled else []
    return Texts.of_arrays(
        np.array(around.of_text(ids, limit) or nothing, np.int32) + 1
        for start in range(0, len(texts), CHUNK)
        for ids in _ids(tokenizer, [around.around(text) for text in texts.slice(start, CHUNK)], around.reach(limit))
    )


def _ids(tokenizer: Any, texts: list[str], limit: int) -> Iterator[list[int]]:
    if getattr(tokenizer, "is_fast", False):
        # The Rust tokenizer itself: the wrapper around it builds masks and types that are not needed here.
        inner = tokenizer.backend_tokenizer
        inner.no_padding()
        inner.enable_truncation(limit)
        return (encoded.ids for encoded in inner.encode_batch_fast(texts, add_special_tokens=False))
    return iter(tokenizer(texts, add_special_tokens=False, truncation=True, max_length=limit)["input_ids"])
