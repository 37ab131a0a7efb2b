"""The base of every selector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampling.retrieval.function import Offer, RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


class Selector(ABC):
    """Picks negatives from what a retrieval function offers.

    It sees the ranker's training, so it can ask for the ranker's scores of now. A subclass writes `select`; one that
    learns while the ranker does also writes `begin`, `observe` and its state.
    """

    def begin(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:  # noqa: B027
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
    ) -> Offer:
        """`count` negatives for each query of the batch, fewer where the function offers fewer."""

    def observe(  # noqa: B027
        self, batch: Batch, offer: Offer, step: UpdateResult, training: RankerTraining, rng: np.random.Generator
    ) -> None:
        """Learn what a selection led to. Called once for each `select` of a batch, in their order, after the update.

        Args:
            batch: that `select` was given.
            offer: that `select` returned, itself: a subclass of `Offer` can carry what learning needs.
            step: of the update, with the scores of this batch's rows alone; columns 1 … belong to the offer.
            training: after the update.
            rng: all its chance.
        """

    def state_dict(self) -> dict[str, Any]:
        """What it has learned in this run, for `ranking.checkpoint`; nothing where it does not learn."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Continue from `state_dict`, after `begin`."""


def pick(offer: Offer, keys: NDArray[np.floating], count: int) -> Offer:
    """The `count` documents of each row with the highest keys; what is not there (−1) comes last.

    Equal keys stand in the offer's order.
    """
    keys = np.where(offer.documents >= 0, keys, -np.inf)
    best = np.argsort(-keys, axis=1, kind="stable")[:, :count]
    return Offer(np.take_along_axis(offer.documents, best, 1), np.take_along_axis(offer.scores, best, 1))
