"""Learns from the texts of a topic's judged documents how likely the others are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.continuous_learning import ContinuousLearning
from pyrite.pooling.pool import TopicPool
from pyrite.ranking.bounds import Between, NonNegative, Positive, checked
from pyrite.ranking.part import Part


class TextRegression(Part):
    """CAL's score (Cormack and Grossman 2014) in log-odds: logistic regression on tf·idf, separate for each topic, with
    the topic's text as one more relevant document.

    Until a topic has both relevant and other documents, its texts are not used: cosines are no odds.

    Args:
        weight: weight of the log-odds relative to the logarithm of the fusion's score; 0 leaves them out, and needs no
            texts.
        until: share of judged documents in a topic's pool from which they have no weight.
        fade: the weight is `weight` · (1 - share / until)^fade; 0 does not fade.
        regularization: C of scikit-learn's `LogisticRegression`. The higher, the closer the fit.
    """

    @checked
    def __init__(
        self,
        weight: Annotated[float, NonNegative] = 0.0,
        until: Annotated[float, Between(0, 1, exclude="low")] = 1.0,
        fade: Annotated[float, NonNegative] = 0.0,
        regularization: Annotated[float, Positive] = 10.0,
    ) -> None:
        self.weight, self.until, self.fade = weight, until, fade
        self._learning = ContinuousLearning(regularization=regularization)

    def log_odds(self, pools: Sequence[TopicPool], rewards: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Compute how likely each document is relevant, as `pyrite.pooling.run_regression.RunRegression.log_odds`
        does.
        """
        odds = []
        for pool, judgements in zip(pools, rewards, strict=True):
            judged = np.flatnonzero(~np.isnan(judgements))
            relevant = judgements[judged] >= 0.5
            self._learning.check_texts(pool)
            if not len(judged) or relevant.all():
                odds.append(np.zeros(pool.size))
            else:
                odds.append(self._learning.scores(pool, judged, relevant, judged[:0]))
        return odds
