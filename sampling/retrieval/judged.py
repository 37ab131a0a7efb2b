"""Offers documents that were judged not relevant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import refuse
from pyrite.ranking.ranked_lists import RankedLists, rectangle
from pyrite.sampling.retrieval.ranked import FromLists, ListRows


class Judged(FromLists):
    """The documents that assessors have read and judged not relevant: negatives beyond doubt.

    They come from pools of the best documents of many systems, so they are hard as well; Cohen et al. 2019 point out
    that Robust04's queries have them. A query without such a document gets no negatives; combine this function with
    another one if judgements are few. Documents with higher grades come first. A grade of −1 (in TREC's pool, not
    judged) is no judgement.

    Raises:
        BadInput: if no document was judged not relevant.
    """

    independent = True

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        judged = encoded.judgements.not_relevant()
        refuse(
            not len(judged.documents),
            "no document was judged not relevant",
            "function=judged",
            "choose another function; this collection has judgements of relevant documents only",
        )
        order = np.lexsort((judged.documents, -judged.grades, judged.rows()))
        self.documents, self.grades = judged.documents[order], judged.grades[order].astype(np.float32)
        self.offsets = judged.offsets

    def lists_of(self, queries: NDArray[np.integer]) -> ListRows:
        documents = rectangle(self.documents, self.offsets, queries, -1)
        return ListRows.of(RankedLists(documents, rectangle(self.grades, self.offsets, queries, -np.inf)))
