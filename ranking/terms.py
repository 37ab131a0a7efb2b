"""Reads texts as the terms that BM25 counts: lowercase words, stemmed, without stop words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
import Stemmer
from numpy.typing import NDArray

from ranking.bounds import Fraction, NonNegative, checked
from ranking.collections.collection import Collection
from ranking.errors import BadInput
from ranking.reading import WORDS, Reading, words_of

UNLIMITED = 1_000_000_000
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

    Raises:
        BadInput: if k1 or b is out of its range.
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


class Terms:
    """A numbering of terms in the order of their appearance.

    Args:
        options: how text is read.
        known: terms that already have numbers, from 0 up.
    """

    def __init__(self, options: Bm25Options, known: Sequence[str] = ()) -> None:
        self.options = options
        self.terms = {term: number for number, term in enumerate(known)}
        self._of_word: dict[str, int] = {}
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
        for words in words_of(frame, UNLIMITED, self.options.reading):
            flat = words.explode().drop_nulls()  # an empty text has no word here, or a null in older polars
            distinct = flat.unique()
            spelled = distinct.to_list()
            self._learn([word for word in spelled if word not in self._of_word])
            ids = pl.DataFrame(
                {"word": distinct, "id": [self._of_word[word] for word in spelled]}, schema_overrides={"id": pl.Int32}
            )
            joined = flat.rename("word").to_frame().join(ids, on="word", how="left", maintain_order="left")["id"]
            terms = joined.to_numpy()
            ends = np.cumsum(words.list.len().to_numpy().astype(np.int64))
            kept = np.concatenate([[0], np.cumsum(terms >= 0)])[np.concatenate([[0], ends])]
            yield terms[terms >= 0], np.diff(kept)

    def _learn(self, words: Sequence[str]) -> None:
        from bm25s.stopwords import STOPWORDS_EN_PLUS  # which imports all of bm25s: see ranking.bm25

        stems = self._stem.stemWords(words) if self._stem else words
        in_english = self.options.reading.language == ENGLISH and self.options.reading.tokenizer == "words"
        stopped = set(STOPWORDS_EN_PLUS) if self.options.stop_words and in_english else set()
        for word, stem in zip(words, stems, strict=True):
            self._of_word[word] = -1 if word in stopped else self.terms.setdefault(stem, len(self.terms))
