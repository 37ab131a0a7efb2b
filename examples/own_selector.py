"""Your own selector: negatives from the middle of BM25's list, where fewer of them are in fact relevant."""

import numpy as np

from pyrite import BM25, Collection, InBatch, RetrievalFunction, Selector, Study
from pyrite.ranking.batch import Batch
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.retrieval.function import CandidateBatch
from pyrite.sampling.selection.selector import pick


class MiddleHard(Selector):
    """Picks at random among the ranks from `first` to `last`.

    Args:
        first, last: the ranks, from 0.
    """

    def __init__(self, first: int = 5, last: int = 30) -> None:
        self.first, self.last = first, last

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        top = function.top(batch, self.last, rng)
        keys = rng.random(top.documents.shape)
        keys[:, : self.first] += 1  # the lowest keys are picked
        return pick(top, keys, count)


study = Study(
    Collection.from_pairs("pairs.csv"),
    {"top": InBatch() + BM25(2), "middle": InBatch() + BM25(2, pick=MiddleHard(first=3, last=20))},
    seeds=2,
    scale="tiny",
)
print(study.run().runs.select("seed", "run"))
