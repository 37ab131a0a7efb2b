"""Judges a sample of each growing batch that a classifier of texts scores highest: finds, and estimates (S-CAL)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pooling.adjudicators.autotar import AutoTar
from pooling.adjudicators.sampled import CERTAIN, Sample, Sampled, given_in, judged_in
from pooling.adjudicators.text_learning import LearningState
from pooling.pool import TopicPool
from pooling.rewards import Reward
from ranking.errors import BadInput


class ScalableLearning(AutoTar, Sampled):
    """S-CAL (Cormack and Grossman 2016, "Scalability of continuous active learning for reliable high-recall text
    classification").

    As AutoTAR, but of each batch at most `most` documents are judged, which chance draws. So a batch is a stratum, and
    what is judged of it stands for the rest: the documents that look relevant are sampled closely, all others thinly.
    Once every document has been in a batch, judging goes on within the batches, the first ones first, which leaves a
    uniform sample of each. Until then the estimates know nothing of what no batch has reached, and so say too little:
    some 40 batches take a pool of a thousand.

    Args:
        most: documents judged of a batch.
        presumed, regularization, reward: as `AutoTar` has them.

    Raises:
        BadInput: where an option is out of range.
    """

    def __init__(
        self, most: int = 5, presumed: int = 100, regularization: float = 10.0, reward: Reward | None = None
    ) -> None:
        super().__init__(presumed, regularization, reward)
        if most < 1:
            raise BadInput(f"most is {most}", remedy="give 1 or more documents")
        self.most = most

    def to_judge(self, batch: NDArray[np.int64], lot: NDArray[np.integer]) -> NDArray[np.int64]:
        return batch[np.argsort(lot[batch])][: self.most]

    def sample(self, pool: TopicPool, state: LearningState) -> Sample:
        given = given_in(state)
        drawn = judged_in(state) & ~given
        batches = int(state.batch_of.max(initial=-1)) + 1
        sizes = np.bincount(state.batch_of[(state.batch_of >= 0) & ~given], minlength=batches)
        stands_for = sizes / np.maximum(np.bincount(state.batch_of[drawn], minlength=batches), 1)
        weights = given.astype(np.float64)
        weights[drawn] = stands_for[state.batch_of[drawn]]
        return Sample(weights, np.where(drawn & (weights > 1), state.batch_of, CERTAIN).astype(np.int32))
