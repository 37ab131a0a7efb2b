"""Shows an example with further relevant documents of its query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.batch import Batch
from ranking.encoding import Judgements


class MorePositives:
    """Finds the best other relevant documents of each query.

    Args:
        judgements: of the collection.
        most: documents beside an example's own.
    """

    def __init__(self, judgements: Judgements, most: int) -> None:
        relevant = judgements.relevant()
        rows = relevant.rows()
        order = np.lexsort((relevant.documents, -relevant.grades, rows))
        places = np.arange(len(rows)) - relevant.offsets[rows]
        near = places <= most  # one more than are shown, for the example's own may be among them
        self.most = most
        self.table = np.full((len(relevant.offsets) - 1, most + 1), -1, np.int32)
        self.table[rows[near], places[near]] = relevant.documents[order][near]

    def of(self, batch: Batch) -> NDArray[np.int32]:
        """Documents [b, most] in order of their grades, −1 where there are no more."""
        found = self.table[batch.queries]
        own = found == batch.positives[:, None]
        behind = np.argsort(own | (found < 0), axis=1, kind="stable")[:, : self.most]
        shown: NDArray[np.int32] = np.where(own, -1, found)[np.arange(len(found))[:, None], behind]
        return shown
