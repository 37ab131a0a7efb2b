"""Gathers what functions that rank without learning rank with: texts, their encoding and BM25."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

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
        folder: where an index in shards is kept, of a collection in one piece; None: there is no such place.
    """

    collection: Collection
    encoded: EncodedCollection
    vectors: WordVectors
    run: Run = in_turn
    folder: Path | None = None
    _bm25: dict[tuple[Bm25Options, int], Bm25Index] = field(default_factory=dict)

    def bm25(self, options: Bm25Options, shards: int = 1) -> Bm25Index:
        """An index with these options, built once; in several shards, or of several pieces, a `PiecedBm25`."""
        if (options, shards) not in self._bm25:
            pieced = bool(self.collection.pieces) or (shards > 1 and self.folder is not None)
            self._bm25[options, shards] = (
                PiecedBm25(self.collection, options, self.run, shards, self.folder)
                if pieced
                else Bm25(self.collection, options)
            )
        return self._bm25[options, shards]
