"""Picks negatives that the current ranker scores high (Dynamic-λ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Fraction, Positive, checked
from pyrite.sampling.selection.selector import KeyedSelector

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class Dynamic(KeyedSelector):
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

    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        scores = np.where(documents >= 0, training.score(batch.queries, documents), -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")
        ranks = np.arange(documents.shape[1])
        weights = ranks * np.log(self.lam) if self.lam else -ranks * 1e9
        # The largest sums of log λ^k and Gumbel noise are draws without replacement (Gumbel-top-k).
        keys = np.empty(documents.shape)
        np.put_along_axis(keys, order, weights + rng.gumbel(size=documents.shape), axis=1)
        return keys
