"""Picks negatives evenly over a teacher's margins between them and the positive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.ranking.errors import no_teacher
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.selector import KeyedSelector

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class MarginBalanced(KeyedSelector):
    """Draws a bin of the teacher's margin s(d⁺) − s(d⁻), and then a document in it (Hofstätter et al. 2021).

    Most documents of a list are easy: drawn uniformly, nearly all pairs would have a wide margin. The margins of a
    query's candidates are cut into bins of equal width. Each bin that has documents is equally probable, and so is each
    document within a bin; draws are without replacement. With `batches=topic_balanced` it is TAS-Balanced.

    Args:
        bins: number of bins for a query's margins.
        candidates: documents per query that are drawn from the list.

    Raises:
        BadInput: if there are fewer than two bins, or the run has no teacher.
    """

    needs_training = True

    @checked
    def __init__(self, bins: Annotated[int, AtLeast(2)] = 10, candidates: Annotated[int, Positive] = 50) -> None:
        self.bins, self.candidates = bins, candidates

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        if training.teacher is None:
            raise no_teacher("there is no teacher whose margins to balance", "selector=margin_balanced")

    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        assert training.teacher is not None
        scores = training.teacher.lookup(batch.queries, documents)  # the positive's is the same for all
        known = np.isfinite(scores)
        low = np.where(known, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        high = np.where(known, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            position = (scores - low) / (high - low) * self.bins
        # Documents that the teacher does not know share one bin; so do all documents if there is one margin.
        bins = np.where(known & (high > low), np.clip(np.nan_to_num(position), 0, self.bins - 1), self.bins).astype(int)
        sizes = ((bins[:, :, None] == bins[:, None, :]) & (documents >= 0)[:, None, :]).sum(axis=2)
        # The largest sums of −log(size) and Gumbel noise are draws without replacement (Gumbel-top-k).
        return rng.gumbel(size=scores.shape) - np.log(np.maximum(sizes, 1))  # 0: a place without a document
