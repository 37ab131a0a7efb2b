"""Defines how texts become the words that are counted: by BM25, by tf·idf and by rankers over words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import polars as pl

from pyrite.ranking.bounds import checked
from pyrite.ranking.digest import digest, texts_read_by
from pyrite.ranking.errors import refuse

CHUNK = 50_000
WORD = r"[\p{L}\p{N}][\p{L}\p{M}\p{N}]*"  # marks belong to their letter: é in two characters, कि
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts that are written without blanks between words."""
SPACED_WORD = rf"[[\p{{L}}\p{{N}}]--[{UNSPACED}]][[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]*"


@checked
@dataclass(frozen=True)
class Reading:
    """How a collection's texts are cut into words, the same for everything that counts them.

    Args:
        tokenizer: `words` (letters and digits between other characters), `characters` (single ones and pairs of
            neighbours in Chinese, Japanese, Thai, Lao, Khmer and Burmese, and words in other scripts), or `subwords`
            of a Hugging Face tokenizer.
        language: the language of stemmer and stop words with tokenizer=words. None neither stems nor drops stop words.
        subwords: the tokenizer of `subwords`: a folder, or a name at the hub.

    Raises:
        BadInput: if subwords are chosen and no tokenizer is named.
    """

    tokenizer: Literal["words", "characters", "subwords"] = "words"
    language: str | None = "english"
    subwords: str | None = None

    def __post_init__(self) -> None:
        refuse(
            self.tokenizer == "subwords" and not self.subwords,
            "no tokenizer is named",
            "collection.subwords",
            "give a folder, or a name at the hub",
        )

    @property
    def key(self) -> str:
        """The options by which results differ; empty for the defaults."""
        if self == Reading():
            return ""
        files = texts_read_by(Path(os.path.expanduser(self.subwords))) if self.subwords else []
        return f"{self.tokenizer} {self.language} {digest(files) if files else self.subwords}"

    def words(self, texts: pl.Series) -> pl.Series:
        """Return a list of lowercase words per text, in Unicode's composed form."""
        texts = texts.str.normalize("NFC").str.to_lowercase()
        if self.tokenizer == "subwords":
            assert self.subwords is not None
            return _subwords(self.subwords, texts)
        if self.tokenizer == "words":
            return texts.str.extract_all(WORD)
        return _characters(texts.str.extract_all(rf"[{UNSPACED}]+|{SPACED_WORD}"))


WORDS = Reading()
"""The words of texts in a language that separates them by blanks."""


def words_of(frame: pl.DataFrame, limit: int, reading: Reading = WORDS) -> Iterator[pl.Series]:
    """Yield the first `limit` lowercase words of each text, in chunks that bound the memory."""
    for start in range(0, len(frame), CHUNK):
        yield reading.words(frame["text"].slice(start, CHUNK)).list.head(limit)


def _characters(words: pl.Series) -> pl.Series:
    """Replace each run of characters without blanks by the characters and the pairs of neighbours in it."""
    flat = words.explode().rename("word")
    runs = flat.drop_nulls().unique()
    runs = runs.filter(runs.str.contains(rf"^[{UNSPACED}]") & (runs.str.len_chars() > 1))
    if runs.is_empty():
        return words
    cut = [[run[at : at + size] for at in range(len(run)) for size in (1, 2) if at + size <= len(run)] for run in runs]
    table = pl.DataFrame({"word": runs, "parts": cut})
    every = pl.DataFrame({"word": words}).with_row_index("row")
    rows = every.explode("word").join(table, on="word", how="left", maintain_order="left").drop_nulls("word")
    rows = rows.with_columns(pl.coalesce("parts", pl.concat_list("word"))).explode("parts")
    lists = rows.group_by("row", maintain_order=True).agg("parts")
    parts = every.join(lists, on="row", how="left", maintain_order="left")["parts"]  # a text without words has no rows
    return parts.fill_null(pl.Series([[]], dtype=pl.List(pl.String))).rename(words.name)


def _subwords(checkpoint: str, texts: pl.Series) -> pl.Series:
    tokenizer = _tokenizer(checkpoint)
    pieces = [encoded.tokens for encoded in tokenizer.encode_batch(texts.to_list(), add_special_tokens=False)]
    return pl.Series(texts.name, pieces, pl.List(pl.String))


@lru_cache(maxsize=2)
def _tokenizer(checkpoint: str) -> Any:
    from pyrite.ranking.hub_tokenizers import read_tokenizer

    tokenizer = read_tokenizer(checkpoint)
    refuse(
        not getattr(tokenizer, "is_fast", False),
        "has no fast tokenizer",
        checkpoint,
        "choose a checkpoint with tokenizer.json",
    )
    inner = tokenizer.backend_tokenizer
    inner.no_padding()
    inner.no_truncation()
    return inner
