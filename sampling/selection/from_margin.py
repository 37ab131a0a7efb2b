"""Picks negatives at a quantile of the batch's margins."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Fraction, Positive, checked
from pyrite.sampling.selection.selector import Scored


class FromMargin(Scored):
    """The candidate whose margin s(q, d⁺) − s(q, d⁻) is nearest to a quantile of all margins of the batch.

    The target is a number without a unit, so it suits any ranker, and it moves with the ranker: 0 is the narrowest
    margin of the batch, one half its median. A query that the ranker has learned has wide margins, and gets its hardest
    candidates; one that it has not learned gets softer ones.

    Args:
        quantile: the quantile of the margins, 0 to 1.
        candidates: documents per query that are drawn from the list and scored.
    """

    @checked
    def __init__(self, quantile: Annotated[float, Fraction] = 0.1, candidates: Annotated[int, Positive] = 16) -> None:
        self.quantile, self.candidates = quantile, candidates

    def keys(
        self, scores: NDArray[np.float64], positive: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        margins = positive - scores
        known = margins[np.isfinite(margins)]
        return -np.abs(margins - np.quantile(known, self.quantile)) if known.size else scores
