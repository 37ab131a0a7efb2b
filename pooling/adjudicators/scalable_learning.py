"""Judges a sample of each growing batch that a text classifier scores highest, to find and to estimate (S-CAL)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.autotar import AutoTar
from pyrite.pooling.adjudicators.sampled import Sample, Sampled, given_in, judged_in, stratified
from pyrite.pooling.adjudicators.text_learning import LearningState
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import NonNegative, Positive, checked


class ScalableLearning(AutoTar, Sampled):
    """S-CAL (Cormack and Grossman 2016, "Scalability of continuous active learning for reliable high-recall text
    classification").

    Like AutoTAR, but of each batch only `most` documents, drawn at random, are judged. So a batch is a stratum, and its
    judged documents represent the rest: the documents that look relevant are sampled densely, all others sparsely. Once
    every document has been in a batch, judging continues within the batches, the first ones first, which leaves a
    uniform sample of each. Until then the estimates do not cover documents that are in no batch yet, and so are too
    low: some 40 batches cover a pool of a thousand. It needs the texts of the documents.

    Args:
        most: documents judged per batch.
        presumed: documents drawn for each training that are presumed not relevant; never more than half of the unjudged
            ones.
    """

    @checked
    def __init__(
        self,
        most: Annotated[int, Positive] = 5,
        presumed: Annotated[int, NonNegative] = 100,
        regularization: Annotated[float, Positive] = 10.0,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(presumed, regularization, reward)
        self.most = most

    def to_judge(self, batch: NDArray[np.int64], lot: NDArray[np.integer]) -> NDArray[np.int64]:
        return batch[np.argsort(lot[batch])][: self.most]

    def sample(self, pool: TopicPool, state: LearningState) -> Sample:
        mine = ~given_in(state)
        batches = int(state.batch_of.max(initial=-1)) + 1
        sizes = np.bincount(state.batch_of[(state.batch_of >= 0) & mine], minlength=batches)
        return stratified(judged_in(state), mine, state.batch_of, sizes)
