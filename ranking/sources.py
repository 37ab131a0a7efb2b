"""Gathers what functions that rank without learning rank with: texts, their encoding and BM25."""

from __future__ import annotations

from dataclasses import dataclass, field

from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection
from ranking.vectors import WordVectors


@dataclass
class Sources:
    """A collection in every form that a first stage needs; made once where a study starts.

    Args:
        collection: text and ids.
        encoded: token ids and judgements.
        vectors: word vectors of the vocabulary.
    """

    collection: Collection
    encoded: EncodedCollection
    vectors: WordVectors
    _bm25: dict[Bm25Options, Bm25] = field(default_factory=dict)

    def bm25(self, options: Bm25Options) -> Bm25:
        """An index with these options, built once."""
        if options not in self._bm25:
            self._bm25[options] = Bm25(self.collection, options)
        return self._bm25[options]
