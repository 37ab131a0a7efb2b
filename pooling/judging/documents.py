"""Reads and writes texts of documents, searches the whole collection, and marks the words of a topic in a text."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import Stemmer

from pyrite.pooling.judging.folder import make_private, private_file
from pyrite.pooling.pool import Pool
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.collections.arrow_files import mapped, write
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.reading import WORD
from pyrite.ranking.stop_words import STOP_WORDS
from pyrite.ranking.whole_file import replace_file

FOUND = 20
"""Documents that a search lists."""
Piece = tuple[str, bool]
"""A stretch of text, and whether it is a term of the query."""
FIELDS = ("category", "subcategory")
"""Metadata of a document that the page shows next to its text."""
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}
"""Unicode's categories of control and format characters, such as the zero-width space, and of separators."""
_TEXTS = {"id": pl.String(), "text": pl.String(), **dict.fromkeys(FIELDS, pl.String())}


class PooledDocuments:
    """Texts by id.

    Args:
        texts: id, text and optionally `FIELDS`; of several texts with one id the first counts.
    """

    def __init__(self, texts: pl.DataFrame) -> None:
        self._texts, self._frame = texts["text"], texts
        self._rows = {name: row for row, name in reversed(list(enumerate(texts["id"])))}

    def text(self, document: str) -> str | None:
        """Return the text of a document, None if it is not known."""
        row = self._rows.get(document)
        return None if row is None else self._texts[row]

    def fields(self, document: str) -> dict[str, str]:
        """Return what is known of a document in addition to its text, by name."""
        row = self._rows.get(document)
        if row is None:
            return {}
        known = {name: self._frame[name][row] for name in FIELDS if name in self._frame.columns}
        return {name: str(value) for name, value in known.items() if value is not None}

    def missing(self, pool: Pool) -> tuple[int, int]:
        """Count the pool's documents that are not known, and those that have nothing to read in them; one in several
        topics counts once.
        """
        names = {name for topic in pool.topics for name in topic.documents}
        known = [name for name in names if name in self._rows]
        return len(names) - len(known), sum(not readable(self.text(name)) for name in known)


def readable(text: str | None) -> bool:
    """Return whether there is a text with a character that can be seen."""
    return any(unicodedata.category(character) not in _INVISIBLE for character in text or "")


def pooled(frames: Iterable[pl.DataFrame], pool: Pool) -> Iterable[pl.DataFrame]:
    """Return those documents of a collection that are in the pool: id, text, `FIELDS`; memory is that of one frame."""
    wanted = pl.concat([topic.documents for topic in pool.topics]).unique().rename("id").to_frame()
    for frame in frames:
        yield _with_fields(frame).join(wanted, on="id", how="semi", maintain_order="left")


def write_texts(path: Path, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Write texts completely or not at all into a file that only its owner may read, and map it."""
    try:
        make_private(path.parent)
        with replace_file(path) as temporary:
            private_file(temporary)
            write(temporary, _TEXTS, map(_with_fields, frames))
    except OSError as error:
        raise BadInput(f"can't be written ({error.strerror})", path, "choose another out=") from None
    return mapped(path)


def read_texts(path: Path) -> pl.DataFrame | None:
    """Read the texts in a file that `write_texts` wrote, None if it does not exist."""
    try:
        return mapped(path)
    except (OSError, pa.ArrowException):
        return None


def _with_fields(frame: pl.DataFrame) -> pl.DataFrame:
    absent = [pl.lit(None, pl.String).alias(name) for name in FIELDS if name not in frame.columns]
    return frame.with_columns(absent).select(list(_TEXTS))


class CollectionSearch:
    """An index of all documents (id, text), built at the first search: until then it costs nothing."""

    def __init__(self, read: Callable[[], Iterable[pl.DataFrame]], stemming: str | None) -> None:
        self._read, self._options = read, Bm25Options(stemming=stemming)
        self._lock = threading.Lock()
        self._made: tuple[pl.DataFrame, PooledDocuments, Bm25] | None = None

    def search(self, query: str) -> list[tuple[str, str]]:
        """Return the best documents for a query, best first: ids and texts. Ties are in the collection's order."""
        with self._lock:
            documents, _, index = self._opened()
            [terms] = index.tokenize(pl.DataFrame({"text": [query]}))
            index.queries = [terms[terms < index.indexed]]
            lists, _ = index.search(np.zeros(1, np.int64), FOUND, threads=1)
        found = [int(row) for row in lists.documents[0] if row >= 0]
        return [(documents["id"][row], documents["text"][row]) for row in found]

    def text(self, document: str) -> str | None:
        """Return the text of a document; None if the collection lacks it, or before the first search."""
        opened = self._made  # does not wait for the index
        return None if opened is None else opened[1].text(document)

    def holds(self, document: str) -> bool:
        """Return whether the collection has a document."""
        with self._lock:
            _, texts, _ = self._opened()
        return texts.text(document) is not None

    def _opened(self) -> tuple[pl.DataFrame, PooledDocuments, Bm25]:
        if self._made is None:
            frames = [frame.select("id", "text") for frame in self._read()]
            documents = pl.concat(frames) if frames else pl.DataFrame(schema={"id": pl.String, "text": pl.String})
            nothing = documents.head(0)
            collection = Collection("search", "", documents, nothing, nothing)
            self._made = documents, PooledDocuments(documents), Bm25(collection, self._options, every_term=True)
        return self._made


class Marking:
    """Splits texts at the terms of the query, as BM25 matches them: words by their stems.

    Args:
        query: its words count except English stop words, unless it has no others.
        stemming: language of the Snowball stemmer; None matches words unchanged.
    """

    def __init__(self, query: str, stemming: str | None = "english") -> None:
        if stemming is not None and stemming not in Stemmer.algorithms():
            known = ", ".join(sorted(Stemmer.algorithms()))
            raise BadInput(f"no stemmer for {stemming!r}", "stemming", f"choose null or one of {known}")
        self._stemming = stemming
        words = [lowered for _, lowered in _words(query)]
        self._terms = set(self._stems([word for word in words if word not in STOP_WORDS] or words))

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
