"""Picks negatives whose scores are close to the positive's (SimANS)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from ranking.bounds import Positive, checked
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector, pick

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class SimANS(Selector):
    """Draws a document with probability proportional to exp(−a·(s(q, d) − s(q, d⁺) − b)²) (Zhou et al. 2022).

    Documents that score about as high as the positive are neither too easy nor probably relevant. The scores are those
    of the current ranker, so the picks follow it; draws are without replacement.

    Differs from the paper: candidates are drawn from the list for each batch and scored then; the paper uses the scores
    of the retriever that made the list.

    Args:
        a: how sharply the probability falls with the distance, above 0.
        b: the distance from the positive's score at which the probability is highest.
        candidates: documents per query that are drawn from the list and scored.
    """

    @checked
    def __init__(
        self, a: Annotated[float, Positive] = 1.0, b: float = 0.0, candidates: Annotated[int, Positive] = 16
    ) -> None:
        self.a, self.b, self.candidates = a, b, candidates

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        candidates = function.sample(batch, max(self.candidates, count), rng)
        together = np.concatenate([batch.positives[:, None], candidates.documents], axis=1)
        scores = training.score(batch.queries, together).astype(np.float64)
        with np.errstate(invalid="ignore"):  # −inf without a document, which `pick` leaves out
            logits = -self.a * (scores[:, 1:] - scores[:, :1] - self.b) ** 2
        # The largest sums of logits and Gumbel noise are draws without replacement (Gumbel-top-k).
        return pick(candidates, logits + rng.gumbel(size=logits.shape), count)
