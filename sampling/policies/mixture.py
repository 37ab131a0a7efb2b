"""Chooses retrieval functions in given proportions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.sampling.filtered import check_window
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.policies.shares import share_negatives, share_queries
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.simans import of_lists

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining
    from pyrite.sampling.selection.selector import Selector


class Mixture(SamplingPolicy):
    """Draws the function with fixed weights.

    Args:
        weights: one weight per function, in their order; they need not add up to 1. None for equal weights.
        per: `batch` draws one function per batch, `query` one per query, and `negative` shares out the negatives of
            each query among the functions, as close to the weights as whole numbers allow.
        each: if it is a number, the first function supplies all queries, and every other function supplies `each`
            negatives to its share of the queries: in-batch negatives and a mined one for some queries. `per` is then
            ignored. None draws by `per`.
        window: first and last rank of the lists that are visible, as [1, 20]; None for all ranks.
        candidates: documents per query that are drawn from each list and scored by the ranker, to pick by SimANS's rule
            instead of the run's selector; None leaves the choice to the selector.
        a: how sharply the probability of a candidate falls with its distance from the positive's score; 0 is uniform.
        b: the score above the positive's that is most probable; `inf` picks the highest scores.
    """

    independent = True

    @checked
    def __init__(
        self,
        *functions: RetrievalFunction,
        weights: Sequence[float] | None = None,
        per: Literal["batch", "query", "negative"] = "batch",
        each: Annotated[int, AtLeast(1)] | None = None,
        window: Sequence[int] | None = None,
        candidates: Annotated[int, AtLeast(1)] | None = None,
        a: Annotated[float, NonNegative] = 1.0,
        b: float = 0.0,
    ) -> None:
        super().__init__(*functions)
        if weights is not None and (min(weights, default=0) < 0 or not 0 < sum(weights) < np.inf):
            raise BadInput(f"weights are {list(weights)}", "policy.weights", "give one number ≥ 0 per function")
        self.weights, self.per, self.each = weights, per, each
        self.window = None if window is None else check_window(window)
        self.candidates, self.a, self.b = candidates, a, b

    def selectors_of(self, functions: Mapping[str, RetrievalFunction]) -> Mapping[str, Selector]:
        return of_lists(functions, self.candidates, self.a, self.b)

    def set_functions(self, functions: list[str]) -> None:
        super().set_functions(functions)
        weights = np.ones(len(functions)) if self.weights is None else np.array(self.weights, float)
        refuse(
            len(weights) != len(functions),
            f"{len(weights)} weights for the functions {functions}",
            "policy.weights",
            "give one per function",
        )
        self.edges = np.cumsum(weights / weights.sum())[:-1]

    def edges_at(self, training: RankerTraining) -> NDArray[np.float64]:
        """Return the cumulative weights of all functions but the last; a subclass may change them while the ranker
        learns.
        """
        return self.edges

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.each is None and self.per != "negative":
            return super().assign(batch, count, training, rng)
        edges = self.edges_at(training)
        if self.each is None:
            return share_negatives(edges, len(batch), count, rng)
        return share_queries(np.diff(edges, prepend=0, append=1), len(batch), count, self.each, rng)

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        draws = rng.random(1 if self.per == "batch" else len(batch))
        chosen = np.searchsorted(self.edges_at(training), draws, side="right")
        return np.broadcast_to(chosen, len(batch)).astype(np.int64)


class Refined(Mixture, weights=(0.2, 0.3, 0.5), per="negative"):
    """Shares of each query's negatives from its subcategory, its entire category and elsewhere (Saeidi et al. 2017).

    These are the refined negatives of section 2.1: of a query's negatives 20% from its subcategory, 30% from its entire
    category, 50% from elsewhere.
    """

    independent = True
