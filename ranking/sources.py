"""Gathers the inputs of functions that rank without learning: texts, their encoding and BM25."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bm25 import Bm25, Bm25Index, Bm25Options
from pyrite.ranking.bm25_pieces import PiecedBm25
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pieces import Run, in_turn
from pyrite.ranking.digest import digest
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.mapped import open_array, write_array
from pyrite.ranking.vectors import WordVectors

FORMAT = 2
"""Number to increase whenever an encoder gives other vectors for the same options and files."""


@dataclass
class Sources:
    """A collection in every form that a first stage needs, made once at the start of a study.

    Args:
        run: runs the tasks of documents in pieces.
        folder: the cache, for indexes in shards of a collection in one piece, and for vectors. None without a cache.
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
                PiecedBm25(self.collection, options, self.run, shards, self.folder and self.folder / "bm25")
                if pieced
                else Bm25(self.collection, options)
            )
        return self._bm25[options, shards]

    def kept_vectors(self, reader: Any, make: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the vectors that an encoder gives texts of the collection: from the cache, or made and kept there.

        Reading a collection takes long, and another guard or depth needs the same vectors.

        Args:
            reader: what they depend on in addition to the collection, a JSON value: the encoder's files and options.
        """
        if self.folder is None:
            return make()
        file = self.folder / "vectors" / f"{digest([FORMAT, self.collection.fingerprint, reader])}.npy"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_array(file, make())
        return open_array(file)
