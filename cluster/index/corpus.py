"""Opens the corpus inside an index actor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cluster.runs.artifacts import Artifacts
from cluster.runs.assemble import make_ranker
from cluster.runs.parts import Base, read_encoded
from ranking.rankers.dense import DenseRanker
from ranking.texts import Texts


class Corpus(Protocol):
    """Texts, and the ranker that encodes them. It crosses processes, so it holds names and no arrays."""

    def texts(self) -> tuple[Texts, Texts]:
        """Return documents and queries, tokenized for the ranker."""

    def ranker(self) -> DenseRanker:
        """Return a ranker without trained weights; the caller loads them."""


@dataclass(frozen=True)
class PreparedCorpus:
    """The corpus of a run's configuration. Parts come from the cache, or are made if it has none.

    Args:
        config: configuration of a run.
    """

    config: dict[str, Any]

    def texts(self) -> tuple[Texts, Texts]:
        artifacts = Artifacts()
        keys = artifacts.keys(self.config)
        parts: dict[str, Any] = {n: artifacts.part(self.config, n) for n in ("base", "tokens") if n in keys}
        encoded = read_encoded(parts)
        return encoded.documents, encoded.queries

    def ranker(self) -> DenseRanker:
        base = Artifacts().part(self.config, "base")
        assert isinstance(base, Base)
        # Any seed will do: published weights replace the drawn ones.
        ranker = make_ranker(self.config, base, np.random.default_rng(0))
        if not isinstance(ranker, DenseRanker):
            raise TypeError(f"{type(ranker).__name__} has no vectors to search")
        return ranker


@dataclass(frozen=True)
class CorpusSize:
    """Number of documents and queries to encode, and the dimension of a vector."""

    documents: int
    queries: int
    dimension: int
