"""Encodes texts into vectors, a block at a time: the encoder actor."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import ray
import torch
from numpy.typing import NDArray

from cluster.index.corpus import Corpus, Size
from ranking.checkpoint import from_bytes
from ranking.embedding import embed
from ranking.index import IndexOptions
from ranking.index_versions import finish_version, write_block
from ranking.rankers.dense import DenseRanker
from ranking.rankers.pretrained import read_in


class Encoder:
    """Encodes blocks of a corpus with whatever weights come with the order.

    Every order names its weights, so that an encoder that was restarted needs to be told nothing.

    Args:
        corpus: what it encodes.
        threads: of torch.
        gpu: encode on the GPU that Ray has given it, where there is one.
        precision: in which it reads; None: the ranker's own.
    """

    def __init__(self, corpus: Corpus, threads: int = 1, gpu: bool = False, precision: str | None = None) -> None:
        torch.set_num_threads(threads)
        self.documents, self.queries = corpus.texts()
        device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
        self._ranker = corpus.ranker().to(device).eval()
        read_in(self._ranker, precision)
        self._loaded = ""

    def size(self, weights: NDArray[np.uint8], digest: str) -> Size:
        """How many texts there are, and how long a vector of these weights is."""
        return Size(len(self.documents), len(self.queries), self._with(weights, digest).dimension)

    def node(self) -> str:
        """The machine that it runs on."""
        return str(ray.get_runtime_context().get_node_id())

    def encode(
        self, weights: NDArray[np.uint8], digest: str, start: int, stop: int, queries: bool, path: str, row: int
    ) -> tuple[bool, NDArray[np.float32] | None]:
        """Encode the texts `start` … `stop` − 1 into a version's file of vectors.

        Args:
            weights: a safetensors file (`ranking.checkpoint`).
            digest: its name; weights of the same name are loaded once.
            start, stop: rows, a whole block.
            queries: rows of the queries, not of the documents.
            path: the file.
            row: of the file, for the first of them.

        Returns:
            Whether they stand in the file; the vectors [rows, dimension] where this machine does not see it. Two
            objects of Ray's store, so that who hears of the first need not fetch the second.
        """
        texts = self.queries if queries else self.documents
        vectors = embed(self._with(weights, digest), texts, np.arange(start, stop), queries)
        if not os.path.exists(path):
            return False, vectors
        write_block(Path(path), row, vectors)
        return True, None

    def finish(self, building: Path, folder: Path, version: int, step: int, digest: str, options: IndexOptions) -> bool:
        """`finish_version`; False where this machine does not see what is to be finished."""
        if not building.exists():
            return folder.exists()  # it was finished by this encoder's predecessor, who died before it could say so
        finish_version(building, folder, version, step, digest, options)
        return True

    def _with(self, weights: NDArray[np.uint8], digest: str) -> DenseRanker:
        if digest != self._loaded:
            self._ranker.load_state_dict(from_bytes(weights.tobytes(), f"weights {digest[:12]}"))
            self._loaded = digest
        return self._ranker
