"""Picks negatives whose scores are close to the positive's (SimANS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.selector import Scored


class SimANS(Scored):
    """Draws a document with probability proportional to exp(−a·(s(q, d) − s(q, d⁺) − b)²) (Zhou et al. 2022).

    Documents that score about as high as the positive are neither too easy nor probably relevant. The scores are those
    of the current ranker, so the picks follow it; draws are without replacement. `a=0` draws uniformly, and `b=inf`
    picks the highest scores, as `dynamic` with `lam=0`.

    Differs from the paper: candidates are drawn from the list for each batch and scored then; the paper uses the scores
    of the retriever that made the list.

    Args:
        a: how sharply the probability falls with the distance, 0 or more.
        b: the distance from the positive's score at which the probability is highest; `inf` picks the highest scores.
        candidates: documents per query that are drawn from the list and scored.
    """

    @checked
    def __init__(
        self, a: Annotated[float, NonNegative] = 1.0, b: float = 0.0, candidates: Annotated[int, Positive] = 16
    ) -> None:
        self.a, self.b, self.candidates = a, b, candidates

    def keys(
        self, scores: NDArray[np.float64], positive: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        if self.a and np.isinf(self.b):
            return np.sign(self.b) * scores
        # The largest sums of logits and Gumbel noise are draws without replacement (Gumbel-top-k).
        logits = -self.a * (scores - positive - self.b) ** 2 if self.a else np.zeros_like(scores)
        return logits + rng.gumbel(size=scores.shape)


def of_lists(
    functions: Mapping[str, RetrievalFunction], candidates: int | None, a: float, b: float
) -> dict[str, SimANS]:
    """Return a selector for each function that has lists; none if `candidates` is None."""
    if candidates is None:
        return {}
    return {name: SimANS(a, b, candidates) for name, function in functions.items() if function.depth}
