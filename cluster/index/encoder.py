"""Opens a corpus and encodes blocks of its texts into vectors: the encoder actor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray

from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import make_ranker
from pyrite.cluster.runs.parts import read_encoded
from pyrite.ranking.checkpoint import from_bytes
from pyrite.ranking.embedding import embed
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.index_versions import finish_version, write_block
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.pretrained import read_in
from pyrite.ranking.texts import Texts


@dataclass(frozen=True)
class PreparedCorpus:
    """The texts of a run's configuration, and the ranker that encodes them.

    It crosses processes, so it holds no arrays: parts come from the cache, or are made if it has none.
    """

    config: dict[str, Any]

    def texts(self) -> tuple[Texts, Texts]:
        """Return documents and queries, tokenized for the ranker."""
        artifacts = Artifacts()
        keys = artifacts.keys(self.config)
        parts: dict[str, Any] = {n: artifacts.part(self.config, n) for n in ("base", "tokens") if n in keys}
        encoded = read_encoded(parts)
        return encoded.documents, encoded.queries

    def ranker(self) -> DenseRanker:
        """Return a ranker without trained weights; the caller loads them."""
        # Any seed will do: published weights replace the drawn ones.
        ranker = make_ranker(self.config, Artifacts().part(self.config, "base"), np.random.default_rng(0))
        assert isinstance(ranker, DenseRanker)  # as `attach_indexes` has checked
        return ranker


@dataclass(frozen=True)
class CorpusSize:
    """Number of documents and queries to encode, and the dimension of a vector."""

    documents: int
    queries: int
    dimension: int


@dataclass(frozen=True)
class TextBlock:
    """Rows of texts that one encoder call reads, and the file whose rows from `row` on get their vectors.

    The file belongs to a shard, or to the serving actor if `shard` is None.
    """

    start: int
    stop: int
    queries: bool
    path: Path
    row: int
    shard: int | None = None


class IndexEncoder:
    """Encodes blocks of a corpus.

    Every call names its weights, so an encoder that Ray restarted needs no other state.
    """

    def __init__(
        self, corpus: PreparedCorpus, threads: int = 1, gpu: bool = False, precision: str | None = None
    ) -> None:
        torch.set_num_threads(threads)
        self.documents, self.queries = corpus.texts()
        device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
        self._ranker = corpus.ranker().to(device).eval()
        read_in(self._ranker, precision)
        self._loaded = ""

    def size(self, weights: NDArray[np.uint8], digest: str) -> CorpusSize:
        """Return how many texts there are, and the dimension of these weights' vectors."""
        return CorpusSize(len(self.documents), len(self.queries), self._with(weights, digest).dimension)

    def node(self) -> str:
        """Return the id of this actor's node."""
        return str(ray.get_runtime_context().get_node_id())

    def encode(
        self, weights: NDArray[np.uint8], digest: str, block: TextBlock
    ) -> tuple[bool, NDArray[np.float32] | None]:
        """Encode a block of texts into a version's file of vectors. Weights of the same digest are loaded once.

        Returns:
            Whether the file was written, and the vectors [rows, dimension] if this node does not see the file. They
            are two objects in Ray's store, so that a caller that needs only the first does not fetch the second.
        """
        texts = self.queries if block.queries else self.documents
        vectors = embed(self._with(weights, digest), texts, np.arange(block.start, block.stop), block.queries)
        if not block.path.exists():
            return False, vectors
        write_block(block.path, block.row, vectors)
        return True, None

    def finish(self, building: Path, folder: Path, version: int, step: int, digest: str, options: IndexOptions) -> bool:
        """Call `finish_version`. Return False if this node does not see the folder."""
        if not building.exists():
            return folder.exists()  # an encoder finished it and died before it could return
        finish_version(building, folder, version, step, digest, options)
        return True

    def _with(self, weights: NDArray[np.uint8], digest: str) -> DenseRanker:
        if digest != self._loaded:
            self._ranker.load_state_dict(from_bytes(weights.tobytes(), f"weights {digest[:12]}"))
            self._loaded = digest
        return self._ranker
