"""Picks the negatives that the ranker is least sure about (EER)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Positive, checked
from pyrite.sampling.selection.selector import Scored

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class ErrorReduction(Scored):
    """Expected error reduction (Roy and McCallum 2001; EER in Cohen et al. 2019, section 5.2).

    Picks the candidates with the largest −P·log P, where P is the probability that a candidate is relevant. The paper
    does not specify how P follows from a ranker's scores. If it is a share of a softmax over positive and candidates,
    nearly all P are below 1/e, −P·log P increases with the score, and the picks are those with the highest scores
    (Dynamic-λ with λ = 0). As a sigmoid over a pair of documents it is uncertainty sampling: the picks are the
    candidates whose order relative to the positive is least certain.

    The paper prints argmax P·log P, which would pick what the ranker is most certain about; `form=printed` does that.

    Args:
        candidates: documents per query that are drawn from the list and scored.
        form: `entropy` (−P·log P, the default) or `printed` (P·log P, as the paper prints it).
        probability: `pair`, σ(f(q, d) − f(q, d⁺)) with d⁺ the positive, or `objective`, as the training objective reads
            the ranker's scores.
    """

    @checked
    def __init__(
        self,
        candidates: Annotated[int, Positive] = 8,
        form: Literal["entropy", "printed"] = "entropy",
        probability: Literal["pair", "objective"] = "pair",
    ) -> None:
        self.candidates, self.sign = candidates, -1.0 if form == "entropy" else 1.0
        self.probability, self.needs_training = probability, probability == "objective"

    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        if self.probability == "pair":
            return super().keys_of(batch, documents, training, rng)
        together = np.concatenate([batch.positives[:, None], documents], axis=1)
        probability = training.probabilities(batch.queries, together)[:, 1:].astype(np.float64)
        return self.sign * probability * np.log(np.maximum(probability, np.finfo(np.float64).tiny))

    def keys(
        self, scores: NDArray[np.float64], positive: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        logs = -np.logaddexp(0, positive - scores)  # log σ(scores − positive), exact even if σ is 0
        return self.sign * np.exp(logs) * np.maximum(logs, -1e300)
