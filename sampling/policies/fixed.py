"""Uses the same retrieval functions for all batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.errors import refuse
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.simans import of_lists

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining
    from pyrite.sampling.selection.selector import Selector


class Fixed(SamplingPolicy):
    """One function for all batches, as BM25 or random sampling are usually used; or fixed numbers of several functions.

    With several functions, `set_counts` must set how many negatives each supplies: all other positives of the batch and
    one mined document, for example (Karpukhin et al. 2020, section 3.2).

    Args:
        candidates: documents per query that are drawn from each list and scored by the ranker, to pick by SimANS's rule
            instead of the run's selector; None leaves the choice to the selector.
        a: how sharply the probability of a candidate falls with its distance from the positive's score; 0 is uniform.
        b: the score above the positive's that is most probable; `inf` picks the highest scores.
    """

    independent = True

    chooses = False
    counts: Sequence[int] | None = None

    @checked
    def __init__(
        self,
        *functions: RetrievalFunction,
        candidates: Annotated[int, AtLeast(1)] | None = None,
        a: Annotated[float, NonNegative] = 1.0,
        b: float = 0.0,
    ) -> None:
        super().__init__(*functions)
        self.candidates, self.a, self.b = candidates, a, b

    def selectors_of(self, functions: Mapping[str, RetrievalFunction]) -> Mapping[str, Selector]:
        return of_lists(functions, self.candidates, self.a, self.b)

    def set_counts(self, counts: Sequence[int]) -> None:
        refuse(
            len(counts) != len(self.functions) or min(counts) < 0 or not sum(counts),
            f"numbers of negatives are {list(counts)}",
            "negatives",
            "give one number per function, one of them above 0",
        )
        self.counts = list(counts)

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.zeros(len(batch), np.int64)

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.counts is None:
            refuse(
                len(self.functions) > 1,
                f"no numbers of negatives for {self.functions}",
                "negatives",
                "give one number per function",
            )
            return super().assign(batch, count, training, rng)
        if sum(self.counts) != count:
            raise ValueError(f"{count} negatives were requested, and the functions supply {self.counts}")
        return np.tile(np.repeat(np.arange(len(self.counts)), self.counts), (len(batch), 1))
