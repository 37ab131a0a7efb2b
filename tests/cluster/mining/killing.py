"""A retrieval function that ends its process."""

import os

import ray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.retrieval.random import Random


class Killing(Random):
    """`random`, but it ends a Ray worker that mines a shard of so many queries."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size_of_shard = size

    def prepare(self, encoded: EncodedCollection, lists: RankedLists | None) -> None:
        worker = ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE
        if worker and len(encoded.queries) == self.size_of_shard:
            os._exit(1)
        super().prepare(encoded, lists)
