"""Defines what every retrieval function does: offer documents as negatives for queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.encoding import EncodedCollection
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.guarded_documents import GuardedDocuments

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


@dataclass(frozen=True)
class CandidateBatch:
    """Documents that a retrieval function offers as negatives, or that a selector picked among them.

    Args:
        documents: int32 [b, m], −1 where the function has fewer.
        scores: float32 [b, m], the function's own scores; nan where it has none.
        tier: int8 [b, m], 0 for documents of the function's own place, more for those that it took from further and
            further away because its own had too few; None where a function has no such thing.
    """

    documents: NDArray[np.int32]
    scores: NDArray[np.float32]
    tier: NDArray[np.int8] | None = field(default=None, kw_only=True)


class RetrievalFunction(ABC):
    """f: Q × C → C_r, an action of the agent (Cohen et al. 2019, section 3.1.1): ranks documents for a query.

    A function lives in two places. Where a study starts, `rank` does the work that needs text, once
    for all runs; its lists travel to the runs as arrays. In a run, `prepare` takes them, and `sample`
    and `top` serve each batch. A function that ranks by itself leaves `rank` as it is. One that follows
    the ranker has `start_run` and `after_update` too.

    Args:
        depth: length of its lists; 0 where it has none.
        guarded: documents that it dropped by itself as probable false negatives, so far.
        reads_mined: whether it is asked after the other functions, and told what they have supplied (`Batch.mined`).
        independent: whether what it gives depends on its arguments, not on the ranker, nor on what it has seen of the
            training, so that it may be asked ahead of time, in another thread. Each class says so for itself: a
            subclass does not inherit it.
        version: of what it ranks by, where that changes during a run; −1 where it doesn't.
        age: steps since the weights behind that version were the ranker's, −1 likewise.
    """

    depth: int = 0
    reads_mined: bool = False
    independent: ClassVar[bool] = False
    guarded: int = 0
    version: int = -1
    age: int = -1

    def rank(
        self, sources: Sources, queries: NDArray[np.integer] | None = None, depth: int | None = None
    ) -> RankedLists | None:
        """Lists, best first, with what is judged relevant still in them; None where it ranks while rankers train.

        Args:
            sources: what it ranks with.
            queries: int [q], whose lists; all when None.
            depth: length of a list; the function's own when None. A longer list begins with a shorter one.
        """
        return None

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        """Scores of pairs [q, m] on the scale of `rank`, for the guard; None where there is no such scale.

        −inf where the document is −1, and where the function does not find it for the query.
        """
        return None

    @abstractmethod
    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        """Prepare for a run.

        Args:
            encoded: the collection.
            lists: what `rank` gave, without relevant and guarded documents.
        """

    @abstractmethod
    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        """`count` distinct documents drawn uniformly from each query's list.

        Relevant documents may be among them: selectors never see those (`sampling.filtered`).

        Args:
            batch: queries and their positives; `batch.whole` is the training's batch where this is a part of it.
            count: documents for each query.
            rng: every random draw comes from it.

        Returns:
            Documents [b, up to `count`], −1 where the list has fewer.
        """

    @abstractmethod
    def top(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        """The first `count` documents of each query's list, best first; arguments as of `sample`."""

    def excluded(self, batch: Batch, documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of the documents [b, m] may not be shown for their query, as far as it is known here."""
        return np.zeros(documents.shape, bool)

    def supply(self, batch_size: int, mined: int) -> int | None:
        """The most negatives that it has for a query, where that is known and is what one takes of it by default.

        Args:
            batch_size: pairs of a batch.
            mined: negatives that the other functions supply for a query.
        """
        return None

    def start_run(self, training: RankerTraining) -> None:  # noqa: B027  (most functions do nothing)
        """Called before the first batch, and after `load_state_dict`."""

    def after_selection(self, batch: Batch, negatives: NDArray[np.int32], own: NDArray[np.bool_]) -> None:  # noqa: B027
        """Called when a batch's negatives are chosen.

        Args:
            batch: queries and their positives.
            negatives: int32 [b, n], of all functions, −1 for none.
            own: bool [b, n], which of them this function was asked for.
        """

    def after_update(self, training: RankerTraining) -> None:  # noqa: B027
        """Called after each update of the ranker."""

    def guarded_documents(self) -> GuardedDocuments | None:
        """What it dropped by itself as probable false negatives; None where it drops nothing."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """What it needs to go on after an interrupt; empty where it never changes."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Continue from `state_dict` at the next `start_run`."""
