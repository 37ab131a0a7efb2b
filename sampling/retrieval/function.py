"""Defines the interface of retrieval functions: offer documents as negatives for queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.suppliers import Supplier

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


@dataclass(frozen=True)
class CandidateBatch:
    """Documents that a retrieval function offers as negatives, or that a selector picked among them.

    Args:
        documents: int32 [b, m], −1 if the function has fewer.
        scores: float32 [b, m], the function's scores; nan if it has none.
        tier: int8 [b, m], 0 for documents of the function's region, and larger numbers for documents from further
            regions, taken because the region had too few; None if the function has no regions.
    """

    documents: NDArray[np.int32]
    scores: NDArray[np.float32]
    tier: NDArray[np.int8] | None = field(default=None, kw_only=True)

    def take(self, columns: NDArray[np.integer]) -> CandidateBatch:
        """Return the documents at `columns` [b, n] of each row."""
        tier = None if self.tier is None else np.take_along_axis(self.tier, columns, 1)
        documents, scores = np.take_along_axis(self.documents, columns, 1), np.take_along_axis(self.scores, columns, 1)
        return CandidateBatch(documents, scores, tier=tier)


class RetrievalFunction(Supplier):
    """f: Q × C → C_r, an action of the agent (Cohen et al. 2019, section 3.1.1): ranks documents for a query.

    A function works in two places. At the start of a study, `rank` does the work that needs text, once for all runs;
    its lists are passed to the runs as arrays. In a run, `prepare` receives them, and `sample` and `top` serve each
    batch. A function that ranks during the training leaves `rank` undefined. One that follows the ranker also defines
    `start_run` and `after_update`.

    Every function takes `count`, `pick` and `name` (see `pyrite.sampling.suppliers.Supplier`), also one whose
    constructor does not declare them. A run has them in its configuration: `negatives.bm25=1` and
    `selector.bm25=simans`.

    Attributes:
        depth: length of its lists; 0 if it has none.
        guarded: number of documents that it has dropped itself as probable false negatives.
        reads_mined: whether it is asked after the other functions, and receives what they have supplied
            (`Batch.mined`).
        independent: whether its answers depend only on its arguments, not on the ranker or on what it has observed, so
            that it can be asked ahead of time in another thread. Every class declares this itself; it is not inherited.
        needs_training: whether it needs more of a training than the ranker's scores (a teacher, the objective, results
            of updates), so that it can't be used to mine.
        version: version of the index that it ranks by, if that changes during a run; −1 otherwise.
        age: steps since the weights of that version were the ranker's; −1 without versions.
    """

    depth: int = 0
    reads_mined: bool = False
    independent: ClassVar[bool] = False
    needs_training: bool = False
    guarded: int = 0
    version: int = -1
    age: int = -1

    def rank(
        self, sources: Sources, queries: NDArray[np.integer] | None = None, depth: int | None = None
    ) -> RankedLists | None:
        """Return ranked lists, best first, with relevant documents in them; None if it ranks during the training.

        Args:
            sources: the collection and indexes that it ranks with.
            queries: int [q], the queries to rank for; None for all.
            depth: length of a list; None takes the function's. A longer list begins with the shorter one.
        """
        return None

    def longest(self, sources: Sources) -> int:
        """Return the length of its longest list, at most `depth`: so wide are the lists of a run."""
        return self.depth

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Return scores of pairs [q, m] on the scale of `rank`, for the guard; None if there is no such scale.

        A score is −inf if the document is −1, or the function does not find it for the query.
        """
        return None

    def masked(self, sources: Sources, queries: NDArray[np.integer]) -> tuple[RankedLists, GuardedDocuments] | None:
        """Return the documents that it must not offer to each of some queries, best first; None if it masks none.

        It replaces `rank` for a function that has no lists. `prepare` receives its lists.
        """
        return None

    @abstractmethod
    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        """Prepare for a run.

        Args:
            lists: the lists of `rank`, without relevant and guarded documents; None if `rank` returned none.
        """

    @abstractmethod
    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        """Draw `count` distinct documents uniformly from each query's list.

        Relevant documents may be among them: selectors never see those (`pyrite.sampling.filtered.FilteredFunction`).

        Args:
            batch: queries and their positives; `batch.whole` is the training's batch if this is a part of it.
            count: documents per query.
            rng: every random draw comes from it.

        Returns:
            Documents [b, up to `count`], −1 if the list has fewer.
        """

    @abstractmethod
    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        """Return the first `count` documents of each query's list, best first; for the arguments see `sample`."""

    def excluded(self, batch: Batch, documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents [b, m] must not be shown for their query, as far as this function knows."""
        return np.zeros(documents.shape, bool)

    def supply(self, batch_size: int, mined: int) -> int | None:
        """Return the default and largest number of negatives per query if the function has a limit; None otherwise.

        Args:
            batch_size: pairs per batch.
            mined: negatives per query that the other functions supply.
        """
        return None

    def start_run(self, training: RankerTraining) -> None:
        """Start a run. Called before the first batch, and after `load_state_dict`."""

    def after_selection(self, batch: Batch, negatives: NDArray[np.int32], own: NDArray[np.bool_]) -> None:
        """Observe the negatives of a batch. Called when they are chosen.

        Args:
            batch: queries and their positives.
            negatives: int32 [b, n], of all functions, −1 for none.
            own: bool [b, n], which of them this function was asked for.
        """

    def after_update(self, training: RankerTraining) -> None:
        """Follow the ranker. Called after each of its updates."""

    def guarded_documents(self) -> GuardedDocuments | None:
        """Return the documents that it dropped itself as probable false negatives; None if it drops nothing."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what it needs to continue after an interrupt; empty if it never changes."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict` at the next `start_run`."""
