"""Judges the documents that a classifier of the judged texts scores highest, a fixed number at a time (CAL)."""

from __future__ import annotations

from pooling.adjudicators.text_learning import TextLearning
from pooling.rewards import Reward
from ranking.errors import BadInput


class ContinuousLearning(TextLearning):
    """CAL, continuous active learning (Cormack and Grossman 2014, "Evaluation of machine-learning protocols for
    technology-assisted review in electronic discovery").

    The authors take the thousand best of millions; a topic's pool has some hundreds. It needs the texts of the
    documents.

    Args:
        batch: documents judged between two trainings.
        regularization: C of scikit-learn's `LogisticRegression`. The higher, the closer the fit.
        reward: how a grade becomes a reward; None is `pooling.rewards.Binary`.

    Raises:
        BadInput: if an option is out of range.
    """

    def __init__(self, batch: int = 10, regularization: float = 10.0, reward: Reward | None = None) -> None:
        super().__init__(regularization, reward)
        if batch < 1:
            raise BadInput(f"batch is {batch}", remedy="give 1 or more documents")
        self.batch = self.first = batch

    def next_size(self, size: int) -> int:
        return self.batch
