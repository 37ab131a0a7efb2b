"""Picks negatives that are about as close to query and positive as these are to each other (TriSampler)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.selector import KeyedSelector

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class TriSampler(KeyedSelector):
    """Draws a document by the triangle of query, positive and negative (Yang et al., AAAI 2024, arXiv 2402.11855).

    The probability is proportional to exp(−a·[(s(q, d) − s(q, d⁺))² + (s(d⁺, d) − s(q, d⁺))²]): highest if the three
    sides are equal. A document that is close to the query but far from the positive answers something else, and one
    that is closer to the positive than the query is probably has the same content. The ranker must have one vector per
    text.

    Differs from the paper: this is our reading of its quasi-triangular principle, by a smooth weight instead of a
    region with bounds.

    Args:
        a: how sharply the probability falls with the distance, 0 or more.
        candidates: documents per query that are drawn from the list and scored.

    Raises:
        BadInput: if the ranker has no vector per text.
    """

    @checked
    def __init__(self, a: Annotated[float, NonNegative] = 0.1, candidates: Annotated[int, Positive] = 16) -> None:
        self.a, self.candidates = a, candidates

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        if not isinstance(training.ranker, DenseRanker):
            name = type(training.ranker).__name__
            raise BadInput(f"{name} has no vector per document", "selector=tri_sampler", "choose selector=simans")

    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        ranker = training.ranker
        assert isinstance(ranker, DenseRanker)
        together = np.concatenate([batch.positives[:, None], documents], axis=1)
        of_query = training.score(batch.queries, together).astype(np.float64)
        distinct, places = np.unique(np.maximum(together, 0), return_inverse=True)
        with torch.no_grad():
            vectors = ranker.represent_documents(training.encoded.documents.take(distinct)).float().cpu().numpy()
        rows = vectors[places.reshape(together.shape)]
        of_positive = ranker.scale * np.einsum("bmd,bd->bm", rows[:, 1:], rows[:, 0])
        side = of_query[:, :1]
        distance = (np.maximum(of_query[:, 1:], -1e9) - side) ** 2 + (of_positive - side) ** 2
        return -self.a * distance + rng.gumbel(size=distance.shape)
