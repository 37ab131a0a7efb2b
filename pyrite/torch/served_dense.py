"""Serves dense negatives from a version of an index that another process may have built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput, refuse
from pyrite.sampling.retrieval.dense import Dense
from pyrite.sampling.retrieval.live_index import Answer
from pyrite.torch.batch_versions import BatchVersions
from pyrite.torch.version_files import Version, VersionFolder

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining


class ServedVersion:
    """The version that a batch is served from. Any process that sees the folder can use it.

    Attributes:
        step: the step of the version in use, −1 for none.
    """

    def __init__(self, folder: VersionFolder, versions: BatchVersions) -> None:
        self.folder, self.versions, self.step = folder, versions, -1

    def use(self, batch: int | None, rank: str = "0") -> float:
        """Wait for the version of a batch, and use it; of no batch the newest. Return the seconds that it took."""
        step = None if batch is None else self.versions.of(batch)
        if step is None and batch is not None:
            step = self.folder.fetched(rank, batch)
        self.step, waited = self.folder.wait(step)
        return waited

    @property
    def version(self) -> Version:
        """The version in use."""
        return self.folder.open(self.step)

    def search(
        self, queries: NDArray[np.integer], depth: int, step: int, vectors: NDArray[np.float32] | None = None
    ) -> Answer:
        """Return the best documents of each query in the version in use."""
        return Answer(*self.version.search(queries, depth, vectors), self.step, self.step)

    def scores(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], vectors: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return scores [q, m] by the version in use; nan for pairs that it does not score."""
        return self.version.scores(queries, documents, vectors)


class ServedDense(Dense):
    """`Dense` whose versions are built from the model of another trainer, `training.service`."""

    def start_run(self, training: RankerTraining) -> None:
        service: Any = getattr(training, "service", None)
        if service is None:
            raise BadInput(
                "has no vectors to search",
                "function=dense",
                "give Negatives(…, model=…) or encode=…; in a study data.negatives.use(model=…)",
            )
        what = "queries=now and precision= are for a ranker of Pyrite's, whose weights a batch can read"
        refuse(self.queries == "now" or self.precision is not None, what, "function.dense", "leave them out")
        self.guard.check_per_query()
        self.training, self.service = training, service
        self.version = self.age = -1
        self._dropped.clear()

    def after_update(self, training: RankerTraining) -> None:
        pass  # what serves it sends the weights

    def state_dict(self) -> dict[str, Any]:
        return {}
