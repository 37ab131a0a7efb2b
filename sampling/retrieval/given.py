"""Offers the documents that the collection lists with a query, as mined sets do."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.given import given_lists
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.suppliers import Picker

ALL = 2**31 - 1
"""A depth that no list reaches."""


class Given(Ranked):
    """The negatives that `collection=pairs` lists with each query: chosen by a person, or by `pyrite mine`.

    They are ordered by their scores if they have any, otherwise as in the file. A query without any gets none.

    Args:
        depth: documents of each query that are offered, those with the highest scores, or the first in the file. None
            takes all.
    """

    independent = True

    @checked
    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        depth: Annotated[int, Positive] | None = None,
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, depth=ALL if depth is None else depth, pick=pick, name=name)

    def longest(self, sources: Sources) -> int:
        return min(self.depth, max(1, self._lists(sources).documents.shape[1]))

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        lists = self._lists(sources)
        relevant = sources.encoded.judgements.are_relevant(np.arange(len(lists.documents)), lists.documents)
        refuse(
            not ((lists.documents >= 0) & ~relevant).any(),
            "this collection lists no documents with its queries, other than relevant ones",
            "function=given",
            "name a file by collection.given=FILE, or columns of collection=pairs by collection.negatives=[…]",
        )
        return lists.take(queries).head(depth)

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32] | None:
        all_lists = self._lists(sources)
        lists = all_lists.take(queries)
        if not np.isfinite(lists.scores).any() and not np.isfinite(all_lists.scores).any():  # some may have none
            return None
        match = (documents[:, :, None] == lists.documents[:, None, :]) & (documents >= 0)[:, :, None]
        scores = np.where(match, lists.scores[:, None, :], -np.inf).max(axis=2, initial=-np.inf)
        return np.nan_to_num(scores, nan=-np.inf, neginf=-np.inf).astype(np.float32)

    def _lists(self, sources: Sources) -> RankedLists:
        """Return all lists of the collection."""
        return self.read(sources, lambda: given_lists(sources.collection))
