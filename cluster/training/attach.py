"""Joins one worker's training to those of the other workers: gradients, validation and the negative index."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from pyrite.cluster.index.demand import served_functions
from pyrite.cluster.training.all_reduce import AllReduce, share_of
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.retrieval.dense import Dense
from pyrite.sampling.retrieval.live_index import Answer, NegativeIndex
from pyrite.sampling.sampler import Sampler


@contextmanager
def attach_run(
    training: RankerTraining, sampler: Sampler, config: dict[str, Any], name: str, note: Callable[[str], None]
) -> Iterator[None]:
    """Attach a run's training to its index actors and, if there are any, to other workers, while the block runs."""
    with ExitStack() as attached:
        if served_functions(config):
            from pyrite.cluster.index.attach import attach_indexes  # needs Ray

            attached.enter_context(attach_indexes(sampler.functions, training, config, name, note))
        if dist.is_initialized():
            attach_workers(training, sampler)
        yield


def attach_workers(training: RankerTraining, sampler: Sampler) -> None:
    """Join this process's training to those of the other workers of its process group."""
    training.gradient_sync = AllReduce()
    training.evaluations = {origin: SharedEvaluation(whole) for origin, whole in training.evaluations.items()}
    for function in sampler.functions.values():
        if isinstance(function, Dense) and function._served is not None:
            function.attach_index(SharedIndex(function._served))


class SharedIndex:
    """An index that only the first worker queries and saves; the others receive its answers.

    Weights are published once, and all workers get answers from the same version even if it depends on timing.
    """

    def __init__(self, index: NegativeIndex) -> None:
        self.index, self._first = index, dist.get_rank() == 0

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        if self._first:
            self.index.publish(weights, step)

    def search(
        self, queries: NDArray[np.integer], depth: int, step: int, vectors: NDArray[np.float32] | None = None
    ) -> Answer:
        return self._broadcast(lambda: self.index.search(queries, depth, step, vectors))

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        return self._broadcast(lambda: self.index.scores(queries, documents, vectors))

    def state_dict(self) -> dict[str, Any]:
        return self.index.state_dict() if self._first else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self._first:
            self.index.load_state_dict(state)

    def _broadcast(self, query: Callable[[], Any]) -> Any:
        answer = [query() if self._first else None]
        dist.broadcast_object_list(answer, src=0)
        return answer[0]


class SharedEvaluation(Evaluation):
    """An `Evaluation` whose queries are divided among the workers; each worker receives all values."""

    def __init__(self, whole: Evaluation) -> None:
        vars(self).update(vars(whole))  # each worker computes what needs no ranker
        queries = whole.candidates.queries
        self._rows = share_of(dist.get_rank(), dist.get_world_size(), len(queries))
        self._mine = Evaluation(whole.encoded, whole.candidates.take(queries[self._rows]), whole.measures)

    def __call__(self, ranker: Ranker) -> dict[str, NDArray[np.float64]]:
        """Return the values of each measure by query, or raise `FloatingPointError` on every worker."""
        values = torch.zeros(len(self.measures), len(self.candidates.queries), dtype=torch.float64)
        if self._rows.start < self._rows.stop:
            try:
                values[:, self._rows] = torch.from_numpy(np.stack(list(self._mine(ranker).values())))
            except FloatingPointError:
                values[:, self._rows] = math.nan  # a worker that left now would leave the others waiting
        total = values.to(ranker.device)
        dist.all_reduce(total)
        if total.isnan().any():
            raise FloatingPointError("the ranker scores a document nan")
        return dict(zip(self.measures, total.cpu().numpy(), strict=True))
