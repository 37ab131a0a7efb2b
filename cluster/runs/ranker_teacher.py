"""Scores documents by a trained ranker, as a teacher or for a guard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.runs.trained import TrainedRanker, read_ranker
from pyrite.ranking.embedding import embed
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.sources import Sources

CROSS_ENCODER = "pyrite.ranking.rankers.cross_encoder.CrossEncoder"


class RankerTeacher:
    """The scores of a trained run or a checkpoint, which reads texts in its own way.

    Args:
        checkpoint: the folder of `pyrite train weights=true`, or a checkpoint of transformers or
            sentence-transformers (`pyrite.cluster.runs.trained.read_ranker`).
        label: the label of a cross-encoder whose head has several. None if it has one score.
    """

    def __init__(self, checkpoint: str, label: int | str | None = None) -> None:
        self.checkpoint, self.label = checkpoint, label
        self._opened: tuple[Sources, TrainedRanker, EncodedCollection] | None = None

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """Return scores [q, m] of documents [q, m] for queries [q]; −inf for document −1."""
        trained, encoded = self._open(sources)
        return score_candidates(trained.ranker, encoded, np.asarray(queries), documents)

    def vectors(
        self, sources: Sources, documents: NDArray[np.integer]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return vectors of all queries and of some documents, whose inner products are its scores.

        Raises:
            BadInput: if it has no such vectors.
        """
        trained, encoded = self._open(sources)
        ranker = trained.ranker
        if not isinstance(ranker, DenseRanker) or ranker.sparse:
            what = f"{type(ranker).__name__} has no dense vector per text"
            raise BadInput(what, self.checkpoint, "name a bi-encoder or a static ranker")
        of_queries = embed(ranker, encoded.queries, np.arange(len(encoded.queries)), queries=True)
        return of_queries * np.float32(ranker.scale), embed(ranker, encoded.documents, documents)

    def _open(self, sources: Sources) -> tuple[TrainedRanker, EncodedCollection]:
        if self._opened is None or self._opened[0] is not sources:
            options = None if self.label is None else {"_target_": CROSS_ENCODER, "label": self.label}
            trained = read_ranker(self.checkpoint, options)
            self._opened = (sources, trained, trained.read(sources.collection, sources.encoded))
        return self._opened[1:]
