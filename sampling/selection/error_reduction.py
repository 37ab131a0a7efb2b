"""Picks the negatives that the ranker is least sure about (EER)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ranking.errors import BadInput
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector, pick

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class ErrorReduction(Selector):
    """Expected error reduction (Roy and McCallum 2001; EER in Cohen et al. 2019, section 5.2).

    Takes the candidates with the largest −P·log P, P being the probability of relevance that the
    training objective reads from the ranker's scores. The paper prints argmax P·log P, which would pick
    what the ranker is surest about; `form=printed` does that.

    Args:
        candidates: how many are drawn from the list and scored for each query.
        form: `entropy` (−P·log P, the default) or `printed` (P·log P).
    """

    def __init__(self, candidates: int = 8, form: str = "entropy") -> None:
        if form not in ("entropy", "printed"):
            raise BadInput(f"no form {form!r}", "selector.form", "choose entropy or printed")
        self.candidates, self.sign = candidates, -1.0 if form == "entropy" else 1.0

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        candidates = function.sample(batch, max(self.candidates, count), rng)
        # The positive stands first: a softmax shares out probability among it and the candidates.
        together = np.concatenate([batch.positives[:, None], candidates.documents], axis=1)
        probability = training.probabilities(batch.queries, together)[:, 1:].astype(np.float64)
        keys = self.sign * probability * np.log(np.maximum(probability, np.finfo(np.float64).tiny))
        return pick(candidates, keys, count)
