"""Collects a teacher's scores of the pairs that a run may show, once for all runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.ranked_lists import RankedLists, rectangle
from pyrite.ranking.sources import Sources

CHUNK = 64
"""Queries per call of the teacher."""


class Teacher(Protocol):
    """Scores pairs: a trained ranker, or any retrieval function that has scores of pairs (BM25, a run file, …)."""

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Return scores [q, m] of documents [q, m] for queries [q]; −inf if it has none, or the document is −1."""


def teacher_scores(
    teacher: Teacher, sources: Sources, queries: NDArray[np.integer], lists: Sequence[RankedLists]
) -> PairScores:
    """Return a teacher's scores of the queries' relevant documents and of the documents in some lists.

    Args:
        lists: the functions' lists, each of all queries.

    Raises:
        BadInput: if the teacher has no scores.
    """
    relevant, size = sources.encoded.judgements.relevant(), len(sources.encoded.documents)
    rows, documents, scores = [], [], []
    for start in range(0, len(queries), CHUNK):
        chunk = np.asarray(queries[start : start + CHUNK], np.int64)
        positives = rectangle(relevant.documents, relevant.offsets, chunk, -1)
        wanted = np.concatenate([positives, *(ranked.documents[chunk] for ranked in lists)], axis=1)
        pair_scores = teacher.own_scores(sources, chunk, wanted)
        if pair_scores is None:
            what = f"{type(teacher).__name__} has no scores of pairs"
            raise BadInput(what, "teacher", "name the column of scores (collection.scores=COLUMN), or another teacher")
        present = wanted >= 0
        rows.append(np.broadcast_to(chunk[:, None], wanted.shape)[present])
        documents.append(wanted[present])
        scores.append(pair_scores[present])
    nothing = np.zeros(0, np.int64)
    return PairScores.of(
        np.concatenate([nothing, *rows]),
        np.concatenate([nothing, *documents]),
        np.concatenate([nothing, *scores]),
        size,
    )
