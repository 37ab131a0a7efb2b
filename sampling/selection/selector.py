"""Defines the interface of selectors: pick negatives from what a retrieval function offers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult


class Selector(Picker):
    """Picks negatives from what a retrieval function offers.

    A selector receives the ranker's training, so it can ask for the ranker's current scores. A subclass defines
    `select`. A selector that learns while the ranker does also defines `start_run`, `observe` and its state.

    >>> class Bottom(Selector):
    ...     def select(self, batch, function, count, training, rng):
    ...         candidates = function.sample(batch, max(8, count), rng)
    ...         return pick(candidates, -training.score(batch.queries, candidates.documents), count)

    Attributes:
        independent: whether its picks depend only on its arguments, not on the ranker or on what it has observed, so
            that it can be asked ahead of time in another thread. Every class declares this itself; it is not inherited.
        needs_training: whether it needs more of a training than the ranker's scores (a teacher, the objective, results
            of updates), so that it can't be used to mine.
    """

    independent: ClassVar[bool] = False
    needs_training: bool = False

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        """Start with a ranker that is about to be trained.

        Called once before the first `select`, and again before a saved state is loaded.

        Args:
            functions: the functions by name.
            training: the training of the ranker; in mid-training if a run is resumed.
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
        """Return `count` negatives for each query of the batch, fewer if the function offers fewer.

        Args:
            batch: queries and their positives.
            function: offers candidates by `sample` (at random) and `top` (the first ones). Relevant documents, and
                those that other functions have supplied, are not among them.
            count: negatives per query.
            training: the training of the ranker.
            rng: every random draw comes from it.
        """

    def observe(
        self,
        batch: Batch,
        selected: CandidateBatch,
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        """Learn from the result of a selection. Called after the update, once per `select` of the batch, in their
        order.

        Args:
            batch: the batch that `select` received.
            selected: the object that `select` returned; a subclass of `CandidateBatch` may carry what learning needs.
            step: the result of the update, with the scores of this batch's rows only; columns 1 … belong to `selected`.
            training: the training after the update.
            rng: every random draw comes from it.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what it has learned in this run, for `pyrite.ranking.checkpoint`; empty if it does not learn."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`, after `start_run`."""


class KeyedSelector(Selector):
    """Draws candidates uniformly from the list, and picks those with the highest keys. A subclass defines `keys_of`.

    Attributes:
        candidates: documents per query that are drawn from the list.
    """

    candidates: int

    @abstractmethod
    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        """Return a key for each of the documents [b, m]; those of missing documents (−1) are ignored."""

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        candidates = function.sample(batch, max(self.candidates, count), rng)
        return pick(candidates, self.keys_of(batch, candidates.documents, training, rng), count)


class Scored(KeyedSelector):
    """Picks by the current ranker's scores of candidates and of the positive. A subclass defines `keys`."""

    @abstractmethod
    def keys(
        self, scores: NDArray[np.float64], positive: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return a key for each candidate.

        Args:
            scores: float64 [b, m], −inf without a document.
            positive: float64 [b, 1].
            rng: every random draw comes from it.
        """

    def keys_of(
        self, batch: Batch, documents: NDArray[np.int32], training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.floating]:
        together = np.concatenate([batch.positives[:, None], documents], axis=1)
        scores = training.score(batch.queries, together).astype(np.float64)
        with np.errstate(invalid="ignore"):  # −inf without a document, which `pick` leaves out
            return self.keys(scores[:, 1:], scores[:, :1], rng)


def pick(candidates: CandidateBatch, keys: NDArray[np.floating], count: int) -> CandidateBatch:
    """Return the `count` documents of each row with the highest keys; missing ones (−1) come last.

    Equal keys keep the order of the candidates.
    """
    keys = np.where(candidates.documents >= 0, keys, -np.inf)
    return candidates.take(np.argsort(-keys, axis=1, kind="stable")[:, :count])
