"""Replaces a training when nothing is trained: returns the scores of a fixed ranker."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates


class FrozenRanker:
    """The interface of a `RankerTraining` for policies, functions and selectors, at step 0.

    Args:
        ranker: the fixed ranker. None if no part needs scores.
    """

    step = epoch = position = 0
    steps_per_epoch = max_epochs = 1
    diverged = epoch_over = done = False

    def __init__(self, ranker: Ranker | None, encoded: EncodedCollection) -> None:
        self._ranker, self.encoded = ranker, encoded

    @property
    def ranker(self) -> Ranker:
        """The ranker; `BadInput` is raised if there is none."""
        if self._ranker is None:
            raise BadInput(
                "this way of choosing asks a ranker for scores", "checkpoint", "name a run's folder or a checkpoint"
            )
        return self._ranker

    @property
    def teacher(self) -> PairScores | None:
        """Raise `BadInput`: a teacher belongs to a training."""
        raise BadInput("a teacher's margins are for a training, and nothing is trained", "selector", "choose another")

    @property
    def validation(self) -> NoReturn:
        """Raise `BadInput`: dev queries by which negatives are chosen belong to a training."""
        what = "this policy compares actions while a ranker is trained, and nothing is trained"
        raise BadInput(what, "policy", "choose another")

    @property
    def gradient_sync(self) -> NoReturn:
        """Raise `BadInput`: the vectors of earlier batches belong to a training."""
        what = "the documents of earlier batches are remembered while a ranker is trained, and nothing is trained"
        raise BadInput(what, "function=memory", "choose another")

    def score(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the ranker's scores [q, m]; −inf if the document is −1."""
        return score_candidates(self.ranker, self.encoded, queries, documents)

    def probabilities(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Raise `BadInput`: P(relevant) is defined by an objective, and there is none."""
        raise BadInput("P(relevant) needs an objective, and nothing is trained", "selector", "choose probability=pair")
