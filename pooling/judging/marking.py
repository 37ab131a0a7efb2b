"""Finds the words of a text that match the query."""

from __future__ import annotations

import polars as pl
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from ranking.errors import BadInput
from ranking.reading import WORD

Piece = tuple[str, bool]
"""A stretch of text, and whether it is a term of the query."""


class Marking:
    """Splits texts at the terms of the query, as BM25 matches them: words by their stems.

    Args:
        query: its words count except English stop words, unless it has no others.
        stemming: language of the Snowball stemmer; None matches words unchanged.

    Raises:
        BadInput: if there is no such stemmer.
    """

    def __init__(self, query: str, stemming: str | None = "english") -> None:
        if stemming is not None and stemming not in Stemmer.algorithms():
            known = ", ".join(sorted(Stemmer.algorithms()))
            raise BadInput(f"no stemmer for {stemming!r}", "stemming", f"choose null or one of {known}")
        self._stemming = stemming
        words = [lowered for _, lowered in _words(query)]
        self._terms = set(self._stems([word for word in words if word not in STOPWORDS_EN_PLUS] or words))

    def pieces(self, text: str) -> list[Piece]:
        """Split the text into pieces, which joined are the text."""
        words = _words(text)
        distinct = sorted({lowered for _, lowered in words})
        marked = {word for word, stem in zip(distinct, self._stems(distinct), strict=True) if stem in self._terms}
        pieces: list[Piece] = []
        done = place = 0
        for word, lowered in words:
            place = text.index(word, place)
            if lowered in marked:
                if place > done:
                    pieces.append((text[done:place], False))
                pieces.append((word, True))
                done = place + len(word)
            place += len(word)
        return [*pieces, (text[done:], False)] if done < len(text) else pieces

    def _stems(self, words: list[str]) -> list[str]:
        # A new stemmer each time: PyStemmer's must not be shared by threads.
        return Stemmer.Stemmer(self._stemming).stemWords(words) if self._stemming else words


def _words(text: str) -> list[tuple[str, str]]:
    """Return the words, unchanged and in lowercase."""
    words = pl.Series([text]).str.extract_all(WORD).explode().drop_nulls()
    return list(zip(words.to_list(), words.str.to_lowercase().to_list(), strict=True))
