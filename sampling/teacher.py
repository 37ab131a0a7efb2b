"""Asks a teacher for its scores of what a run may show, once for all runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from ranking.pair_scores import PairScores
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources

CHUNK = 64
"""Queries that are asked about at once."""


class Teacher(Protocol):
    """Scores pairs: a trained ranker, or any retrieval function that has scores of pairs (BM25, a run file, …)."""

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Scores [q, m] of documents [q, m] for queries [q]; −inf where it has none, and where the document is −1."""


def teacher_scores(
    teacher: Teacher, sources: Sources, queries: NDArray[np.integer], lists: Sequence[RankedLists]
) -> PairScores:
    """A teacher's scores of the queries' relevant documents and of what some lists hold.

    Args:
        teacher: who is asked.
        sources: what it scores with.
        queries: int [q].
        lists: of all queries, as functions have them.

    Raises:
        BadInput: where the teacher has no scores.
    """
    relevant, size = sources.encoded.judgements.relevant(), len(sources.encoded.documents)
    rows, documents, scores = [], [], []
    for start in range(0, len(queries), CHUNK):
        asked = np.asarray(queries[start : start + CHUNK], np.int64)
        own = [relevant.documents[relevant.offsets[query] : relevant.offsets[query + 1]] for query in asked]
        listed = [each.documents[asked] for each in lists]
        wanted = np.full((len(asked), max(map(len, own), default=0)), -1, np.int32)
        for row, places in enumerate(own):
            wanted[row, : len(places)] = places
        wanted = np.concatenate([wanted, *listed], axis=1)
        found = teacher.own_scores(sources, asked, wanted)
        if found is None:
            what = f"{type(teacher).__name__} has no scores of pairs"
            raise BadInput(what, "teacher", "name the column of scores (collection.scores=COLUMN), or another teacher")
        there = wanted >= 0
        rows.append(np.broadcast_to(asked[:, None], wanted.shape)[there])
        documents.append(wanted[there])
        scores.append(found[there])
    nothing = np.zeros(0, np.int64)
    return PairScores.of(
        np.concatenate([nothing, *rows]),
        np.concatenate([nothing, *documents]),
        np.concatenate([nothing, *scores]),
        size,
    )
