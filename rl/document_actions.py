"""Lets an agent pick the documents of each batch: an action is one document per negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from ranking.training import Batch
from rl.candidates import BM25_DEPTH
from rl.document_selector import Picks
from rl.environment import Actions
from rl.state import StateTables
from sampling.sampler import Sampler

HEAD = 10
"""Number of BM25's first documents, which are counted separately."""


class DocumentActions(Actions):
    """An action is one document for each negative of the batch (Cohen et al. 2019, section 6.2).

    Each query of the batch picks from the s_d documents nearest to it: the i-th choice is the i-th document of the
    list, which has no relevant documents. An action has an entry for every query of a full batch; entries beyond the
    end of a shorter one are ignored.

    Args:
        documents: s_d.
        pairs: pairs in a full batch.
        picks: negatives per query. They are drawn independently, and a document that was drawn before is left out.
    """

    lasting = False

    def __init__(self, documents: int, pairs: int, picks: int) -> None:
        self.documents, self.pairs, self.picks = documents, pairs, picks
        self.space = spaces.MultiDiscrete(np.full(pairs * picks, documents))
        self.names = [f"BM25 1-{HEAD}", f"BM25 {HEAD + 1}-{BM25_DEPTH}", f"not in BM25's {BM25_DEPTH}"]

    def apply(self, sampler: Sampler, action: Any) -> None:
        sampler.selector = Picks(np.asarray(action, np.int64).reshape(self.pairs, self.picks), self.documents)

    def to_record(self, action: Any, batch: Batch, tables: StateTables) -> list[int]:
        """Return the number of picks within BM25's first ten, within the rest of its list, and beyond it."""
        assert tables.candidates is not None
        places = np.asarray(action, np.int64).reshape(self.pairs, self.picks)[: len(batch)]
        nearness = tables.candidates[batch.queries[:, None], places, -1]
        head, listed = nearness > 1 - (HEAD - 0.5) / BM25_DEPTH, nearness > 0
        counts = [head.sum(), (listed & ~head).sum(), (~listed).sum()]
        return [int(count) for count in counts]

    def shares(self, taken: Sequence[list[int]]) -> dict[str, float]:
        counts = np.reshape(np.array(taken, np.int64), (-1, len(self.names))).sum(axis=0)
        return {name: float(count / max(counts.sum(), 1)) for name, count in zip(self.names, counts, strict=True)}
