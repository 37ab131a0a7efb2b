"""Your own retrieval function: negatives that are near the positive in the collection."""

import numpy as np

from pyrite import Collection, InBatch, RetrievalFunction, Study
from pyrite.ranking.batch import Batch
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.retrieval.function import CandidateBatch


class Nearby(RetrievalFunction):
    """Offers the documents after the positive. Relevant ones are removed by Pyrite, and those of other functions.

    Args:
        reach: how far a document may be.
    """

    def __init__(self, reach: int = 20) -> None:
        self.reach = reach

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        self.size = len(encoded.documents)

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        steps = 1 + rng.permuted(np.tile(np.arange(max(self.reach, count)), (len(batch), 1)), axis=1)[:, :count]
        return self._offered(batch, steps)

    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self._offered(batch, np.tile(1 + np.arange(count), (len(batch), 1)))

    def _offered(self, batch: Batch, steps: np.ndarray) -> CandidateBatch:
        documents = ((batch.positives[:, None] + steps) % self.size).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))


negatives = {"in-batch": InBatch(), "+ nearby": InBatch() + Nearby(reach=10)}
study = Study(Collection.from_pairs("pairs.csv"), negatives, seeds=2, scale="tiny")
print(study.run().samplers.select("run", "function", "negatives"))
