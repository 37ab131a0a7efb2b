"""Offers the documents of the last batches, whose vectors are remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.optimization import SingleProcess
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.vector_memory import VectorMemory
from pyrite.sampling.retrieval.function import CandidateBatch
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.suppliers import Picker

if TYPE_CHECKING:
    from pyrite.ranking.batch import MorePositives
    from pyrite.ranking.training import Batch, RankerTraining


class Memory(InBatch):
    """Cross-batch memory: documents of the last batches, each at the cost of an inner product (Wang et al. 2020).

    Their vectors are those of the weights at that time, and no gradient flows through them: a ranker drifts slowly
    enough for that once its learning rate is small. Documents of the current batch, with the further positives of
    `training.positives`, are not taken from the memory. A document that has the text of a relevant one is left out.
    The memory is empty at the first batch: use it with another function, as in `function=[in_batch,memory]`.

    Args:
        batches: number of batches that are remembered, with all documents that were read for them.

    Raises:
        BadInput: if it is not above 0, the ranker has no vectors, or several workers train it.
    """

    needs_training = True

    @checked
    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        batches: Annotated[int, Positive] = 8,
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, pick=pick, name=name)
        self.memory = VectorMemory(batches)
        self._more_positives: MorePositives | None = None
        self._loaded: Mapping[str, Any] | None = None

    def supply(self, batch_size: int, mined: int) -> None:
        return None

    def start_run(self, training: RankerTraining) -> None:
        if not isinstance(training.ranker, DenseRanker):
            remedy = "choose ranker=static, bi_encoder or dssm"
            raise BadInput(f"{type(training.ranker).__name__} has no vectors to remember", "function.memory", remedy)
        if not isinstance(training.gradient_sync, SingleProcess):
            raise BadInput("each worker would remember other documents", "function.memory", "set resources.workers=1")
        if self._loaded is not None:
            self.memory.load_state_dict(self._loaded, training.ranker.device)
            self._loaded = None
        self._more_positives = training.more_positives
        training.remember(self.memory)

    def sample(self, batch: Batch, count: int, rng: np.random.Generator) -> CandidateBatch:
        return self.offer(batch, self.memory.documents, count, rng)

    def after_selection(self, batch: Batch, negatives: NDArray[np.int32], own: NDArray[np.bool_]) -> None:
        more = [] if self._more_positives is None else [self._more_positives.of(batch).ravel()]
        read = np.concatenate([batch.positives, negatives[~own], *more])
        self.memory.use(np.setdiff1d(negatives[own], read))

    def after_update(self, training: RankerTraining) -> None:
        self.memory.push()

    def state_dict(self) -> dict[str, Any]:
        return self.memory.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loaded = dict(state)
