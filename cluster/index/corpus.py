"""Opens the corpus inside an index actor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cluster.config.build import build
from cluster.runs.artifacts import Artifacts
from cluster.runs.bm25_shards import BM25
from cluster.runs.parts import Base, read_encoded
from cluster.runs.rankers import make_ranker
from ranking.bm25 import Bm25Options
from ranking.ranked_lists import RankedLists
from ranking.rankers.dense import DenseRanker
from ranking.sources import Sources
from ranking.texts import Texts


class Corpus(Protocol):
    """Texts, and the ranker that encodes them. It crosses processes, so that it holds names and no arrays."""

    def texts(self) -> tuple[Texts, Texts]:
        """Documents and queries, as the ranker reads them."""

    def ranker(self) -> DenseRanker:
        """A ranker whose weights are yet to be loaded."""

    def bm25(self, queries: NDArray[np.integer], depth: int) -> RankedLists:
        """BM25's first `depth` documents of each query."""


class PreparedCorpus:
    """The corpus of a run's configuration: its parts come from the cache, or are made where there is none.

    Args:
        config: of a run.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self._sources: Sources | None = None

    def __reduce__(self) -> tuple[type[PreparedCorpus], tuple[dict[str, Any]]]:
        return (PreparedCorpus, (self.config,))

    def texts(self) -> tuple[Texts, Texts]:
        artifacts = Artifacts()
        keys = artifacts.keys(self.config)
        parts: dict[str, Any] = {n: artifacts.part(self.config, n) for n in ("base", "tokens") if n in keys}
        encoded = read_encoded(parts)
        return encoded.documents, encoded.queries

    def ranker(self) -> DenseRanker:
        # Any seed will do: published weights take the place of the drawn ones.
        ranker = make_ranker(self.config, self._base(), np.random.default_rng(0))
        if not isinstance(ranker, DenseRanker):
            raise TypeError(f"{type(ranker).__name__} has no vectors to search")
        return ranker

    def bm25(self, queries: NDArray[np.integer], depth: int) -> RankedLists:
        if self._sources is None:
            self._sources = Artifacts().sources(self.config, self._base())
        return self._sources.bm25(self._bm25_options()).search(queries, depth, threads=1)[0]

    def _bm25_options(self) -> Bm25Options:
        """Those of the run's own BM25 function, where it has one."""
        for node in self.config["function"].values():
            if node["_target_"] == BM25:
                options: Bm25Options = build(node).options
                return options
        return Bm25Options()

    def _base(self) -> Base:
        base = Artifacts().part(self.config, "base")
        assert isinstance(base, Base)
        return base


@dataclass(frozen=True)
class Size:
    """How much there is to encode: texts of each kind, and numbers a vector."""

    documents: int
    queries: int
    dimension: int
