"""Encodes blocks of texts into vectors: the encoder actor."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import ray
import torch
from numpy.typing import NDArray

from cluster.index.corpus import Corpus, CorpusSize
from ranking.checkpoint import from_bytes
from ranking.embedding import embed
from ranking.index import IndexOptions
from ranking.index_versions import finish_version, write_block
from ranking.rankers.dense import DenseRanker
from ranking.rankers.pretrained import read_in


class IndexEncoder:
    """Encodes blocks of a corpus with the weights that each call names.

    Since every call names its weights, an encoder that Ray restarted needs no other state.

    Args:
        corpus: texts to encode, and the ranker.
        threads: threads of torch.
        gpu: encode on the GPU that Ray assigned, if there is one.
        precision: precision of the ranker's weights; None keeps that of the ranker.
    """

    def __init__(self, corpus: Corpus, threads: int = 1, gpu: bool = False, precision: str | None = None) -> None:
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
        self, weights: NDArray[np.uint8], digest: str, start: int, stop: int, queries: bool, path: str, row: int
    ) -> tuple[bool, NDArray[np.float32] | None]:
        """Encode the texts `start` … `stop` − 1 into a version's file of vectors.

        Args:
            weights: content of a safetensors file (`ranking.checkpoint`).
            digest: digest of the weights; weights of the same digest are loaded once.
            start, stop: rows of one block.
            queries: rows of the queries instead of the documents.
            path: the file of vectors.
            row: first row of the block in the file.

        Returns:
            Whether the file was written, and the vectors [rows, dimension] if this node does not see the file. They
            are two objects in Ray's store, so that a caller that needs only the first does not fetch the second.
        """
        texts = self.queries if queries else self.documents
        vectors = embed(self._with(weights, digest), texts, np.arange(start, stop), queries)
        if not os.path.exists(path):
            return False, vectors
        write_block(Path(path), row, vectors)
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
