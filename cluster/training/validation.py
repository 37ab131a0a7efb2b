"""Shares validation among the workers of a run: each measures some of the queries."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from cluster.training.all_reduce import share_of
from ranking.evaluation.evaluation import Evaluation
from ranking.rankers.ranker import Ranker


class SharedEvaluation(Evaluation):
    """An `Evaluation` whose queries are shared out among the workers; each of them hears all values.

    Args:
        whole: of all queries.
    """

    def __init__(self, whole: Evaluation) -> None:
        vars(self).update(vars(whole))  # what asks no ranker is told by each worker for itself
        self._rows = share_of(dist.get_rank(), dist.get_world_size(), len(whole.candidates.queries))
        self._mine = Evaluation(
            whole.encoded, whole.candidates.take(whole.candidates.queries[self._rows]), whole.measures
        )

    def __call__(self, ranker: Ranker) -> dict[str, NDArray[np.float64]]:
        """Values of each measure by query, the same on every worker.

        Raises:
            FloatingPointError: on every worker, where the ranker scores a candidate of any of them nan.
        """
        values = torch.zeros(len(self.measures), len(self.candidates.queries), dtype=torch.float64)
        if self._rows.start < self._rows.stop:
            try:
                values[:, self._rows] = torch.from_numpy(np.stack(list(self._mine(ranker).values())))
            except FloatingPointError:
                values[:, self._rows] = math.nan  # a worker that left now would leave the others waiting
        if ranker.sharding is not None:
            ranker.sharding.finish()
        together = values.to(ranker.device)
        dist.all_reduce(together)
        if together.isnan().any():
            raise FloatingPointError("the ranker scores a document nan")
        return dict(zip(self.measures, together.cpu().numpy(), strict=True))
