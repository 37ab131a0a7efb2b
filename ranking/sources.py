"""Gathers the inputs of functions that rank without learning: texts, their encoding and BM25."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyrite.ranking.bm25 import Bm25, Bm25Index, Bm25Options
from pyrite.ranking.bm25_pieces import PiecedBm25
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pieces import Run, in_turn
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.vectors import WordVectors


@dataclass
class Sources:
    """A collection in every form that a first stage needs, made once at the start of a study.

    Args:
        run: runs the tasks of documents in pieces.
        folder: the folder for an index in shards of a collection in one piece. None if there is no such folder.
    """

    collection: Collection
    encoded: EncodedCollection
    vectors: WordVectors
    run: Run = in_turn
    folder: Path | None = None
    _bm25: dict[tuple[Bm25Options, int], Bm25Index] = field(default_factory=dict)

    def bm25(self, options: Bm25Options, shards: int = 1) -> Bm25Index:
        """Return an index with these options, built once: a `PiecedBm25` for several shards or pieces."""
        if (options, shards) not in self._bm25:
            pieced = bool(self.collection.pieces) or (shards > 1 and self.folder is not None)
            self._bm25[options, shards] = (
                PiecedBm25(self.collection, options, self.run, shards, self.folder)
                if pieced
                else Bm25(self.collection, options)
            )
        return self._bm25[options, shards]
