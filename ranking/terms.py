"""Reads texts as the terms that BM25 counts: lowercase words, stemmed, without stop words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
import Stemmer
from numpy.typing import NDArray

from pyrite.ranking.bounds import Fraction, NonNegative, checked
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.reading import CHUNK, WORDS, Reading
from pyrite.ranking.stop_words import STOP_WORDS
from pyrite.ranking.word_ids import WordIds

ENGLISH = "english"


@checked
@dataclass(frozen=True)
class Bm25Options:
    """Options of BM25's text processing and scores (Robertson and Zaragoza 2009, in Lucene's form, as in bm25s).

    Args:
        k1: the saturation of repeated terms: the smaller, the sooner repeats stop counting.
        b: the strength of length normalisation, 0 to 1.
        stemming: the language of the Snowball stemmer. None does not stem. `english`, the default, is replaced by the
            collection's language.
        stop_words: whether to drop English stop words, if the collection is in English.
        reading: how texts are cut into words; that of the collection (`of`).
    """

    # Outside these bounds a weight can be 0 or negative, which the search takes for a document without a score.
    k1: Annotated[float, NonNegative] = 0.9
    b: Annotated[float, Fraction] = 0.4
    stemming: str | None = "english"
    stop_words: bool = True
    reading: Reading = WORDS

    def of(self, collection: Collection) -> Bm25Options:
        """Return the options for a collection: with its words, and its language instead of English."""
        stemming = collection.reading.language if self.stemming == ENGLISH else self.stemming
        return replace(self, stemming=stemming, reading=collection.reading)


class TermNumbers:
    """A numbering of terms in the order of their appearance.

    Args:
        options: how text is read.
        known: terms that already have numbers, from 0 up.
    """

    def __init__(self, options: Bm25Options, known: Sequence[str] = ()) -> None:
        self.options = options
        self.terms = {term: number for number, term in enumerate(known)}
        self._words = WordIds(options.reading)
        self._of_word = np.zeros(0, np.int32)
        try:
            stems = options.stemming and options.reading.tokenizer == "words"
            self._stem = Stemmer.Stemmer(options.stemming) if stems else None
        except KeyError:
            names = ", ".join(sorted(Stemmer.algorithms()))
            raise BadInput(
                f"no stemmer for {options.stemming!r}", "stemming", f"choose null or one of {names}"
            ) from None

    def tokenize(self, frame: pl.DataFrame) -> list[NDArray[np.int32]]:
        """Return term ids of each text; each distinct word is stemmed once."""
        texts: list[NDArray[np.int32]] = []
        for flat, lengths in self.flat(frame):
            texts += np.split(flat, np.cumsum(lengths)[:-1])
        return texts

    def flat(self, frame: pl.DataFrame) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Yield term ids of texts, concatenated, and the number of each text, in chunks that bound the memory."""
        for start in range(0, len(frame), CHUNK):
            words, lengths, new = self._words.read(frame["text"].slice(start, CHUNK))
            if new:
                self._of_word = np.concatenate([self._of_word, self._learn(new)])
            terms = self._of_word[words]
            kept = terms >= 0
            if not kept.all():
                ends = np.concatenate([[0], np.cumsum(lengths)])
                terms, lengths = terms[kept], np.diff(np.concatenate([[0], np.cumsum(kept)])[ends])
            yield terms, lengths

    def _learn(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return the term of each word, -1 for a stop word."""
        stems = self._stem.stemWords(words) if self._stem else words
        in_english = self.options.reading.language == ENGLISH and self.options.reading.tokenizer == "words"
        stopped = STOP_WORDS if self.options.stop_words and in_english else frozenset()
        terms = (
            -1 if word in stopped else self.terms.setdefault(stem, len(self.terms))
            for word, stem in zip(words, stems, strict=True)
        )
        return np.fromiter(terms, np.int32, len(words))
