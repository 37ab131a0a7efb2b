"""The base of every retrieval function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.encoding import EncodedCollection
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources


@dataclass(frozen=True)
class Offer:
    """Documents that a retrieval function offers as negatives, none of them judged relevant.

    Args:
        documents: int32 [b, m], −1 where the function has fewer.
        scores: float32 [b, m], the function's own scores; nan where it has none.
    """

    documents: NDArray[np.int32]
    scores: NDArray[np.float32]


class RetrievalFunction(ABC):
    """f: Q × C → C_r, an action of the agent (Cohen et al. 2019, section 3.1.1): ranks documents for a query.

    A function lives in two places. Where a study starts, `rank` does the work that needs text, once
    for all runs; its lists travel to the runs as arrays. In a run, `ready` takes them, and `sample`
    and `top` serve each batch. A function that ranks by itself leaves `rank` as it is.
    """

    def rank(self, sources: Sources) -> RankedLists | None:
        """Lists of all queries, best first, with what is judged relevant still in them, or None."""
        return None

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Scores of pairs [q, m] on the scale of `rank`, for the guard; None where there is no such scale."""
        return None

    @abstractmethod
    def ready(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        """Prepare for a run.

        Args:
            encoded: the collection.
            lists: what `rank` gave, without relevant and guarded documents.
        """

    @abstractmethod
    def sample(self, queries: NDArray[np.integer], count: int, rng: np.random.Generator) -> Offer:
        """`count` distinct documents drawn uniformly from each query's list."""

    @abstractmethod
    def top(self, queries: NDArray[np.integer], count: int, rng: np.random.Generator) -> Offer:
        """The first `count` documents of each query's list."""
