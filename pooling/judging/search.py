"""Searches the whole collection for assessors, by BM25, so that documents that no run found can be judged too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from pooling.judging.documents import PooledDocuments
from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.collection import Collection

FOUND = 20
"""Documents that a search lists."""


class CollectionSearch:
    """An index of all documents, built at the first search: until then it costs nothing.

    Args:
        read: returns the documents: id, text.
        stemming: language of the Snowball stemmer; None keeps words unchanged.
    """

    def __init__(self, read: Callable[[], Iterable[pl.DataFrame]], stemming: str | None = "english") -> None:
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
        """Return the text of a document; None if the collection lacks it, or before the first search. Never waits for
        the index.
        """
        opened = self._made
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
