"""Compresses ranked lists to the documents that a trained ranker scores highest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.training import Batch, RankerTraining
from sampling.filtered import FilteredFunction
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.function import RetrievalFunction
from sampling.retrieval.ranked import Ranked


class CompressedLists(Ranked):
    """S_{i+1} = Top(f_i(S_i), K_i): the negatives of a list that a ranker scores highest (Pu et al. 2021, equation 4).

    Made by `compress_lists` between two stages of a training (`sampling.staged_training`), not from a configuration.

    Args:
        lists: of all queries; without what is judged relevant.
    """

    independent = True

    def __init__(self, lists: RankedLists) -> None:
        super().__init__(max(lists.documents.shape[1], 1))
        self.lists, self.counts = lists, lists.counts

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        found = self.lists.take(queries)
        return RankedLists(found.documents[:, :depth], found.scores[:, :depth])


def compress_lists(
    function: RetrievalFunction,
    training: RankerTraining,
    queries: NDArray[np.int64],
    shown: int,
    keep: int | None,
    rng: np.random.Generator,
    chunk: int = 256,
) -> CompressedLists:
    """The next stage's function.

    Args:
        function: of this stage.
        training: of this stage's ranker, which has ended.
        queries: the training queries; others get empty lists.
        shown: the head of each list that competes.
        keep: negatives that are kept, those that the ranker scores highest first; None keeps all as they are.
        rng: for functions whose head is chance.
        chunk: queries that are scored at once.
    """
    width = shown if keep is None else min(keep, shown)
    documents = np.full((len(training.encoded.queries), width), -1, np.int32)
    scores = np.full(documents.shape, -np.inf, np.float32)
    relevant = training.encoded.judgements.relevant()
    pairs = RelevantPairs(training.encoded.judgements, len(training.encoded.documents))
    offered = FilteredFunction(function, pairs)
    for start in range(0, len(queries), chunk):
        rows = queries[start : start + chunk]
        batch = Batch(rows, relevant.documents[relevant.offsets[rows]])
        candidates = offered.top(batch, shown, rng)
        keys = candidates.scores if keep is None else training.score(rows, candidates.documents)
        order = np.argsort(np.where(candidates.documents >= 0, -keys, np.inf), axis=1, kind="stable")[:, :width]
        if keep is None:
            order = np.argsort(candidates.documents < 0, axis=1, kind="stable")[:, :width]
        size = order.shape[1]
        documents[rows, :size] = np.take_along_axis(candidates.documents, order, 1)
        scores[rows, :size] = np.take_along_axis(keys, order, 1)
    return CompressedLists(RankedLists(documents, np.where(documents >= 0, scores, -np.inf).astype(np.float32)))
