"""Measures a ranker over the candidates of one origin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.evaluation.measures import Evaluator, ranked_grades
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.ranked_lists import rectangle
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.ranks import ranks_in
from pyrite.ranking.scoring import score_candidates


class Evaluation:
    """An evaluation of rankers over the same candidates. Everything that depends only on them is computed once.

    Args:
        measures: ir-measures names.
    """

    def __init__(self, encoded: EncodedCollection, candidates: Candidates, measures: Sequence[str]) -> None:
        self.encoded, self.candidates, self.measures = encoded, candidates, list(measures)
        self._judgements = encoded.counted_judgements()
        judged = [self._judgements.of(query)[1] for query in candidates.queries]
        self.evaluator = Evaluator(measures, judged, encoded.judgements.relevant_from)
        if candidates.documents is not None:
            self._grades = self.grades_of(candidates.documents)
            self._keys = encoded.document_key[np.maximum(candidates.documents, 0)]
        else:
            positive = self._judgements if self.evaluator.unjudged else self._judgements.gaining()
            offsets, queries, unjudged = positive.offsets, candidates.queries, self.evaluator.unjudged
            self._wanted = rectangle(positive.documents, offsets, queries, -1)
            self._wanted_grades = rectangle(positive.grades, offsets, queries, unjudged)
            self._itself = encoded.own_documents(candidates.queries)
            for rows, space in candidates.spaces(encoded):  # documents outside can't be found
                inside = np.isin(self._wanted[rows], space)
                self._wanted_grades[rows] = np.where(inside, self._wanted_grades[rows], unjudged)

    def grades_of(self, documents: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the grades of documents [q, d]; those with one text have its highest grade if they are merged."""
        counted = self.encoded.counted(documents)
        return self._judgements.lookup(self.candidates.queries, counted, self.evaluator.unjudged)

    def __call__(self, ranker: Ranker) -> dict[str, NDArray[np.float64]]:
        """Return the values of each measure by query; a query without a relevant document has 0.

        Raises:
            FloatingPointError: if the ranker scores a candidate nan.
        """
        queries = self.candidates.queries
        scores = self.scores(ranker)
        if scores is not None:
            return self.of_scores(scores)
        ranks = np.zeros(self._wanted.shape, np.int64)
        together, count = np.concatenate([self._wanted, self._itself], axis=1), self._wanted.shape[1]
        for rows, space in self.candidates.spaces(self.encoded):
            of_both = ranks_in(ranker, self.encoded, queries[rows], together[rows], space)
            found, itself = of_both[:, :count], of_both[:, count:]
            # The query itself is left out of its ranking.
            ahead = (itself[:, None, :] > 0) & (itself[:, None, :] < found[:, :, None])
            ranks[rows] = found - ahead.sum(axis=2)
        return self.evaluator.of_ranks(self._wanted_grades, ranks, self.candidates.depth)

    def scores(self, ranker: Ranker) -> NDArray[np.float32] | None:
        """Return a ranker's scores [q, depth] of the candidates, in their order; None if they are not lists."""
        queries, documents = self.candidates.queries, self.candidates.documents
        return None if documents is None else score_candidates(ranker, self.encoded, queries, documents)

    def of_scores(self, scores: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
        """Return the values for any scores [q, depth] of the candidates, in their order."""
        documents = self.candidates.documents
        assert documents is not None
        if np.isnan(scores).any():
            raise FloatingPointError("the ranker scores a document nan")
        return self.evaluator(ranked_grades(scores, documents, self._grades, self._keys))

    def of_ideal(self) -> dict[str, NDArray[np.float64]]:
        """Return the values of the best order of the candidates: the maximum that a ranker can reach with them."""
        grades = self._grades if self.candidates.documents is not None else self._wanted_grades
        return self.evaluator(-np.sort(-grades, axis=1)[:, : self.candidates.depth])

    def of_bm25(self) -> dict[str, NDArray[np.float64]]:
        """Return the values of BM25's order of the candidates."""
        lists = self.candidates.first_stage
        keys = self.encoded.document_key[np.maximum(lists.documents, 0)]
        return self.evaluator(ranked_grades(lists.scores, lists.documents, self.grades_of(lists.documents), keys))
