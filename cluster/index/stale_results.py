"""Caches the last answer to each query, to go on with while an index is lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sampling.retrieval.live_index import Answer


class StaleResultCache:
    """Answers by query, and how many queries had to do with them.

    Attributes:
        recalled: queries that were answered from here.
        missing: of these, how many had no answer and so got no documents.
    """

    def __init__(self) -> None:
        self.recalled = self.missing = 0
        self._answers: dict[int, tuple[NDArray[np.int32], NDArray[np.float32], int, int]] = {}
        self._scores: dict[int, tuple[bytes, NDArray[np.float32]]] = {}

    def note(self, queries: NDArray[np.integer], answer: Answer) -> None:
        """Remember an answer."""
        for row, query in enumerate(queries.tolist()):
            self._answers[query] = answer.documents[row], answer.scores[row], answer.version, answer.step

    def recall(self, queries: NDArray[np.integer], depth: int) -> Answer:
        """What was answered last; −1 and −inf where nothing was. Version and step are those of the oldest answer."""
        documents = np.full((len(queries), depth), -1, np.int32)
        scores = np.full((len(queries), depth), -np.inf, np.float32)
        versions = []
        for row, query in enumerate(queries.tolist()):
            if query in self._answers:
                *lists, version, step = self._answers[query]
                for whole, kept in zip((documents, scores), lists, strict=True):
                    whole[row, : len(kept)] = kept[:depth]
                versions.append((version, step))
        self.recalled += len(queries)
        self.missing += len(queries) - len(versions)
        return Answer(documents, scores, *min(versions, default=(-1, -1)))

    def note_scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], scores: NDArray[np.float32]
    ) -> None:
        """Remember scores."""
        for row, query in enumerate(queries.tolist()):
            self._scores[query] = documents[row].tobytes(), scores[row]

    def recall_scores(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """The last scores of the same documents; −inf where there are none, so that no guard lets anything pass."""
        scores = np.full(documents.shape, -np.inf, np.float32)
        for row, query in enumerate(queries.tolist()):
            asked, kept = self._scores.get(query, (b"", scores[row]))
            if asked == documents[row].tobytes():
                scores[row] = kept
        return scores
