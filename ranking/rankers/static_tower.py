"""Reads queries by tables of sentence-transformers, next to a transformer that reads documents."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from pyrite.ranking.errors import refuse
from pyrite.ranking.lazy import tokenizers
from pyrite.ranking.rankers.sentence_folder import TABLES, UNLIMITED, SentenceFolder
from pyrite.ranking.rankers.static_folder import encoded
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords


def is_table(module: Any) -> bool:
    """Return whether a module reads texts by a table."""
    return type(module).__name__ in TABLES


class StaticTower(nn.Module):
    """A table that reads queries: the mean of the tokens' vectors, or the weights of the tokens that occur.

    Args:
        module: the `StaticEmbedding` or `SparseStaticEmbedding`.
    """

    reach = float("inf")

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self._is_sparse = TABLES[type(module).__name__]

    def forward(self, padded: Tensor) -> dict[str, Any]:
        """Return the features of texts, int64 [texts, tokens], each token plus one; 0 is none."""
        mask = padded > 0
        if self._is_sparse:
            padding: Any = self.module.tokenizer
            ids = torch.where(mask, padded - 1, padding.pad_token_id or 0)
            features = {"input_ids": ids, "attention_mask": mask.long()}
        else:
            lengths = mask.sum(1)
            features = {"input_ids": padded[mask] - 1, "offsets": torch.cumsum(lengths, 0) - lengths}
        made: dict[str, Any] = self.module(features)
        return made

    def blocks(self) -> list[nn.Module]:
        """Return the modules with weights, from the input up."""
        return [self.module]


class StaticQueryTokens(Subwords):
    """The subwords of documents, and the tokens of queries that a table reads, which has no special ones.

    Args:
        source: the checkpoint, whose `static` names the table.
        max_query, max_document: see `Subwords`.
    """

    def __init__(self, source: SentenceFolder, max_query: int, max_document: int) -> None:
        super().__init__(source.document, max_query, max_document, source.prompts)
        self.source = source

    def key(self) -> list[Any]:
        return [*super().key(), self.source.static, hashlib.sha256(_file(self.source).read_bytes()).hexdigest()]

    def after_prompt(self, texts: pl.Series, prompt: str | None) -> tuple[Texts, int]:
        tokenizer, before = static_tokenizer(self.source), self.prompts.query if prompt is None else prompt
        limit = None if self.max_query >= UNLIMITED else self.max_query
        return encoded(tokenizer, texts, limit, before), count(tokenizer, before)


def static_tokenizer(source: SentenceFolder) -> Any:
    """Return the tokenizer of a checkpoint's static query tower."""
    tokenizer = tokenizers.Tokenizer.from_file(str(_file(source)))
    if TABLES[source.static]:  # the library sets its limit again
        tokenizer.no_truncation()
    return tokenizer


def count(tokenizer: Any, text: str) -> int:
    """Return the number of a text's tokens, without special ones."""
    return len(tokenizer.encode(text, add_special_tokens=False).ids) if text else 0


def _file(source: SentenceFolder) -> Path:
    file = Path(source.query) / "tokenizer.json"
    what = f"{source.static} has no tokenizer.json"
    refuse(not file.is_file(), what, source.query, "save it with a fast tokenizer")
    return file
