"""Gathers what functions that rank without learning rank with: texts, their encoding and BM25."""

from __future__ import annotations

from dataclasses import dataclass, field

from ranking.bm25 import Bm25, Bm25Index, Bm25Options
from ranking.bm25_pieces import PiecedBm25
from ranking.collections.collection import Collection
from ranking.collections.pieces import Run, in_turn
from ranking.encoding import EncodedCollection
from ranking.vectors import WordVectors


@dataclass
class Sources:
    """A collection in every form that a first stage needs; made once where a study starts.

    Args:
        collection: text and ids.
        encoded: token ids and judgements.
        vectors: word vectors of the vocabulary.
        run: does what is made of documents in pieces.
    """

    collection: Collection
    encoded: EncodedCollection
    vectors: WordVectors
    run: Run = in_turn
    _bm25: dict[Bm25Options, Bm25Index] = field(default_factory=dict)

    def bm25(self, options: Bm25Options) -> Bm25Index:
        """An index with these options, built once."""
        if options not in self._bm25:
            several = bool(self.collection.pieces)
            self._bm25[options] = (
                PiecedBm25(self.collection, options, self.run) if several else Bm25(self.collection, options)
            )
        return self._bm25[options]
