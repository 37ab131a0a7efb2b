"""Puts a query into a batch once, if it can."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.batch import Batch
from pyrite.ranking.batches.order import BatchOrder


class Distinct(BatchOrder):
    """Batches in which a query occurs once: another of its pairs would bring no in-batch negative.

    In each epoch pairs and queries are shuffled, and a batch takes a pair of each of the queries that have most pairs
    left. If one query has more pairs than there are batches, the last batches repeat it.
    """

    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        shuffled = rng.permutation(len(examples))
        rows: dict[int, list[int]] = {}
        for row in shuffled.tolist():
            rows.setdefault(int(examples.queries[row]), []).append(row)
        # The most pairs first; of equally many, in the order of the shuffled pairs.
        left = [(-len(pairs), place, query) for place, (query, pairs) in enumerate(rows.items())]
        heapq.heapify(left)
        batches: list[list[int]] = []
        while left:
            chosen = [heapq.heappop(left) for _ in range(min(size, len(left)))]
            batches.append([rows[query].pop() for _, _, query in chosen])
            for count, place, query in chosen:
                if count < -1:
                    heapq.heappush(left, (count + 1, place, query))
        whole = [batch for batch in batches if len(batch) == size]
        rest = [row for batch in batches if len(batch) < size for row in batch]
        mixed = [row for number in rng.permutation(len(whole)) for row in whole[number]]
        return np.array([*mixed, *rest], np.int64)
