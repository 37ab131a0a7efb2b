"""Picks negatives that are softer, the higher the positive scores (AHNS)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Between, NonNegative, Positive, checked
from pyrite.sampling.selection.selector import Scored

LEAST = 1e-6
"""The least base of the power, for positives that score below −α."""


class AHNS(Scored):
    """Adaptive hardness (Lai et al., AAAI 2024, arXiv 2401.05191): the candidate nearest to β·(s(q, d⁺) + α)^(p + 1).

    With p < −1 the target falls as the positive's score rises: a query that the ranker has not learned gets hard
    negatives, a learned one gets soft ones, which are less often unjudged relevant documents.

    Args:
        alpha: α, added to the positive's score. Scores depend on the ranker: those of `static` are −20 to 20.
        beta: β, the scale of the target.
        p: the exponent; −1 gives every query the target β.
        candidates: documents per query that are drawn from the list and scored.
    """

    @checked
    def __init__(
        self,
        alpha: Annotated[float, NonNegative] = 1.0,
        beta: Annotated[float, Positive] = 100.0,
        p: Annotated[float, Between(-10, -1)] = -2.0,
        candidates: Annotated[int, Positive] = 16,
    ) -> None:
        self.alpha, self.beta, self.p, self.candidates = alpha, beta, p, candidates

    def keys(
        self, scores: NDArray[np.float64], positive: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return -np.abs(scores - self.beta * np.maximum(positive + self.alpha, LEAST) ** (self.p + 1))
