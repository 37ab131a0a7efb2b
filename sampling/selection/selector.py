"""Defines what every selector does: pick negatives from what a retrieval function offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sampling.retrieval.function import CandidateBatch, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


class Selector(ABC):
    """Picks negatives from what a retrieval function offers.

    It sees the ranker's training, so it can ask for the ranker's scores of now. A subclass writes `select`; one that
    learns while the ranker does also writes `start_run`, `observe` and its state.

    Args:
        independent: whether what it gives depends on its arguments, not on the ranker, nor on what it has seen of the
            training, so that it may be asked ahead of time, in another thread. Each class says so for itself: a
            subclass does not inherit it.
    """

    independent: ClassVar[bool] = False

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:  # noqa: B027
        """Start afresh for a ranker that is about to be trained.

        Called once before the first `select`, and again after a state was loaded: the state is put back behind it.

        Args:
            functions: by name.
            training: of the ranker; in mid-training where a run goes on.
        """

    @abstractmethod
    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        """`count` negatives for each query of the batch, fewer where the function offers fewer."""

    def observe(  # noqa: B027
        self,
        batch: Batch,
        selected: CandidateBatch,
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        """Learn what a selection led to. Called once for each `select` of a batch, in their order, after the update.

        Args:
            batch: that `select` was given.
            selected: what `select` returned, itself: a subclass of `CandidateBatch` may carry
                what learning needs.
            step: of the update, with the scores of this batch's rows alone; columns 1 … are those of `selected`.
            training: after the update.
            rng: every random draw comes from it.
        """

    def state_dict(self) -> dict[str, Any]:
        """What it has learned in this run, for `ranking.checkpoint`; nothing where it does not learn."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Continue from `state_dict`, after `start_run`."""


def pick(candidates: CandidateBatch, keys: NDArray[np.floating], count: int) -> CandidateBatch:
    """The `count` documents of each row with the highest keys; missing ones (−1) come last.

    Equal keys keep the order of the candidates.
    """
    keys = np.where(candidates.documents >= 0, keys, -np.inf)
    best = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    return CandidateBatch(
        np.take_along_axis(candidates.documents, best, 1), np.take_along_axis(candidates.scores, best, 1)
    )
