"""Picks negatives that the current ranker scores high (Dynamic-λ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from ranking.bounds import Fraction, Positive, checked
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector, pick

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class Dynamic(Selector):
    """Dynamic negative sampling (Zhang et al. 2013; Dynamic-λ in Cohen et al. 2019, section 5.2).

    Draws candidates uniformly from the list, orders them by the current ranker's score, and picks the candidate at rank
    k = 0, 1, … with probability proportional to λ^k, without replacement.

    Args:
        lam: λ, 0 to 1. 0 picks the top, 1 is uniform.
        candidates: documents per query that are drawn from the list and scored.
    """

    @checked
    def __init__(self, lam: Annotated[float, Fraction] = 0.5, candidates: Annotated[int, Positive] = 8) -> None:
        self.lam, self.candidates = lam, candidates

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        candidates = function.sample(batch, max(self.candidates, count), rng)
        scores = training.score(batch.queries, candidates.documents)
        ordered = pick(candidates, scores, candidates.documents.shape[1])
        # The largest sums of log λ^k and Gumbel noise are draws without replacement (Gumbel-top-k).
        ranks = np.arange(ordered.documents.shape[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(ranks == 0, 0.0, ranks * np.log(self.lam)) if self.lam else -ranks * 1e9
        return pick(ordered, weights + rng.gumbel(size=ordered.documents.shape), count)
