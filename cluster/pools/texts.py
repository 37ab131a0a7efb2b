"""Reads the texts of a pool's documents and topics, and finds documents beyond the pool."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cluster.config.build import build
from pooling.pool import Pool
from pooling.terms import CollectionTexts, with_terms
from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.cache import open_collection
from ranking.collections.collection import Collection
from ranking.errors import BadInput


class PoolTexts:
    """The texts of a pool's documents and topics, read at first use.

    Args:
        node: node of conf/collection, composed; None if there are no texts.
        cache: the cache folder.
    """

    def __init__(self, node: dict[str, Any] | None, cache: Path) -> None:
        self._node, self._cache = node, cache

    @cached_property
    def collection(self) -> Collection:
        """The whole collection.

        Raises:
            BadInput: if none is given.
        """
        if self._node is None:
            what = "the texts of documents and topics are not given"
            raise BadInput(what, remedy="give collection=…, e.g. collection=beir collection.path=FOLDER")
        return open_collection(build(self._node, "collection"), self._cache / "collections")

    def beyond(self, topics: list[str], count: int) -> pl.DataFrame:
        """Return the best documents of the collection for each topic by BM25: topic, document, place."""
        queries = self.collection.queries["id"]
        numbers = {name: number for number, name in enumerate(queries)}
        known = [topic for topic in topics if topic in numbers]
        if not known:
            raise BadInput("none of the topics is a query of the collection", "beyond", "are they of the same one?")
        rows = np.array([numbers[topic] for topic in known], np.int64)
        lists, _ = self._index.search(rows, min(count, self.collection.size))
        row, place = np.nonzero(lists.documents >= 0)
        documents = self.collection.documents["id"].gather(lists.documents[row, place])
        return pl.DataFrame({"topic": pl.Series(known).gather(row), "document": documents, "place": place})

    def add_terms(self, pool: Pool) -> Pool:
        """Return the pool with its documents' vectors, for methods that learn from texts."""
        queries = self.collection.queries
        topics = dict(zip(queries["id"], queries["text"], strict=True))
        return with_terms(pool, CollectionTexts(self.collection.documents, topics))

    @cached_property
    def _index(self) -> Bm25:
        return Bm25(self.collection, Bm25Options())
