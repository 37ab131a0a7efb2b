"""Puts a query into a batch once, if it can."""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import polars as pl
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
        table = pl.DataFrame({"query": examples.queries[shuffled], "row": shuffled})
        groups = table.group_by("query", maintain_order=True).agg("row")["row"].to_list()
        # The most pairs first; of equally many, in the order of the shuffled pairs.
        left = [(-len(pairs), place) for place, pairs in enumerate(groups)]
        heapq.heapify(left)
        batches: list[list[int]] = []
        while left:
            chosen = [heapq.heappop(left) for _ in range(min(size, len(left)))]
            batches.append([groups[place].pop() for _, place in chosen])
            for count, place in chosen:
                if count < -1:
                    heapq.heappush(left, (count + 1, place))
        whole = sum(len(batch) == size for batch in batches)  # those before the others: queries only become fewer
        mixed = [*map(batches.__getitem__, rng.permutation(whole).tolist()), *batches[whole:]]
        return np.array(list(itertools.chain.from_iterable(mixed)), np.int64)
