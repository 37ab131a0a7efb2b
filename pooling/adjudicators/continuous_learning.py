"""Judges the documents that a classifier of the judged texts scores highest, a fixed number at a time (CAL)."""

from __future__ import annotations

from typing import Annotated

from pyrite.pooling.adjudicators.text_learning import TextLearning
from pyrite.pooling.rewards import GradeReward
from pyrite.ranking.bounds import Positive, checked


class ContinuousLearning(TextLearning):
    """CAL, continuous active learning (Cormack and Grossman 2014, "Evaluation of machine-learning protocols for
    technology-assisted review in electronic discovery").

    The authors take the thousand best of millions; a topic's pool has some hundreds. It needs the texts of the
    documents.

    Args:
        batch: documents judged between two trainings.
        reward: how a grade becomes a reward; None is `pyrite.pooling.rewards.Binary`.
    """

    @checked
    def __init__(
        self,
        batch: Annotated[int, Positive] = 10,
        regularization: Annotated[float, Positive] = 10.0,
        reward: GradeReward | None = None,
    ) -> None:
        super().__init__(regularization, reward)
        self.batch = self.first = batch

    def next_size(self, size: int) -> int:
        return self.batch
