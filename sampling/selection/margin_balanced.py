"""Picks negatives evenly over the margins that a teacher sees between them and the positive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from ranking.bounds import AtLeast, Positive, checked
from ranking.teachers import no_teacher
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector, pick

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class MarginBalanced(Selector):
    """Draws a bin of the teacher's margin s(d⁺) − s(d⁻), and then a document of it (Hofstätter et al. 2021).

    Most documents of a list are easy: drawn uniformly, pairs of a wide margin would be nearly all there are. The
    margins of a query's candidates are cut into bins of equal width; each bin that has documents is as probable as
    another, and so is each document of a bin; draws are without replacement.
    With `batches=topic_balanced` it is TAS-Balanced.

    Args:
        bins: of a query's margins.
        candidates: how many are drawn from the list for each query.

    Raises:
        BadInput: if the run has no teacher.
    """

    @checked
    def __init__(self, bins: Annotated[int, AtLeast(2)] = 10, candidates: Annotated[int, Positive] = 50) -> None:
        self.bins, self.candidates = bins, candidates

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        if training.teacher is None:
            raise no_teacher("there is no teacher whose margins to balance", "selector=margin_balanced")

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        assert training.teacher is not None
        candidates = function.sample(batch, max(self.candidates, count), rng)
        scores = training.teacher.lookup(batch.queries, candidates.documents)  # the positive's is the same for all
        known = np.isfinite(scores)
        low = np.where(known, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        high = np.where(known, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            places = (scores - low) / (high - low) * self.bins
        # What the teacher does not know is a bin of its own; so are all where there is one margin.
        bins = np.where(known & (high > low), np.clip(np.nan_to_num(places), 0, self.bins - 1), self.bins).astype(int)
        sizes = (bins[:, :, None] == bins[:, None, :]).sum(axis=2)
        # The largest of −log(size) plus Gumbel noise are draws one after the other without replacement (Gumbel-top-k).
        return pick(candidates, rng.gumbel(size=scores.shape) - np.log(sizes), count)
