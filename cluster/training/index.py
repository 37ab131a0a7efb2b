"""Shares one negative index among all workers of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from ranking.sharded_state import gathered
from sampling.retrieval.live_index import Answer, NegativeIndex


class SharedIndex:
    """An index that the first worker queries; the others receive its answers.

    So weights are published once, and all workers are answered by the same version also where that depends on timing.

    Args:
        index: the first worker's; those of the others are never asked.
    """

    def __init__(self, index: NegativeIndex) -> None:
        self.index, self._first = index, dist.get_rank() == 0

    def publish(self, weights: Mapping[str, Tensor], step: int) -> None:
        """See `NegativeIndex`. Weights that are split over the workers are gathered, one by one, on the first."""
        whole = gathered(weights)
        if self._first:
            self.index.publish(whole, step)

    def search(
        self, queries: NDArray[np.integer], depth: int, step: int, vectors: NDArray[np.float32] | None = None
    ) -> Answer:
        """See `NegativeIndex`."""
        answer: Answer = self._heard(lambda: self.index.search(queries, depth, step, vectors))
        return answer

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """See `NegativeIndex`."""
        scores: NDArray[np.float32] = self._heard(lambda: self.index.scores(queries, documents, vectors))
        return scores

    def state_dict(self) -> dict[str, Any]:
        """Of the first worker's index; the state that is kept is the first worker's."""
        return self.index.state_dict() if self._first else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`."""
        if self._first:
            self.index.load_state_dict(state)

    def _heard(self, ask: Callable[[], Any]) -> Any:
        told = [ask() if self._first else None]
        dist.broadcast_object_list(told, src=0)
        return told[0]
