"""Defines what every sampling policy does: choose a retrieval function for each batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


class SamplingPolicy(ABC):
    """Chooses, for every batch, the retrieval function that supplies its negatives (π in Cohen et al. 2019).

    A subclass writes `choose`. One that learns while the ranker does also writes `start_run`, `observe` and its state;
    the sampler calls `set_functions`, `start_run`, and for each batch `choose` and `observe`.

    Args:
        chooses: whether it needs several functions to choose among.
        window: first and last rank, from 1, of what selectors see of functions with lists; None for all of them. It
            may change from batch to batch: it is read after `assign`.
        independent: whether what it gives depends on its arguments, not on the ranker, nor on what it has seen of the
            training, so that it may be asked ahead of time, in another thread. Each class says so for itself: a
            subclass does not inherit it.
    """

    chooses: ClassVar[bool] = True
    independent: ClassVar[bool] = False
    window: tuple[int, int] | None = None

    def set_functions(self, functions: list[str]) -> None:
        """Take the names of the functions, in the order in which `choose` indexes them."""
        name = type(self).__name__
        if self.chooses and len(functions) < 2:
            raise BadInput(
                f"{name} chooses among functions and has only {functions}",
                "function",
                "give a list: function=[random,bm25]",
            )
        self.functions = functions

    def set_counts(self, counts: Sequence[int]) -> None:
        """Take how many negatives each function supplies, where a run says so.

        Raises:
            BadInput: where the policy decides that itself.
        """
        raise BadInput(
            f"{type(self).__name__} decides itself how many negatives each function supplies",
            "negatives",
            "choose policy=fixed, or leave the numbers out",
        )

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:  # noqa: B027
        """Start afresh for a ranker that is about to be trained.

        Called once before the first `choose`, and again after a state was loaded: the state is put back behind it.

        Args:
            functions: by name, in the order of `set_functions`.
            training: of the ranker; in mid-training where a run goes on.
        """

    @abstractmethod
    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        """An index into the functions for each query of the batch (the same for all in most policies)."""

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        """The function of each negative [b, count], ascending in a row: what `choose` says, for all of a query's.

        A query may have fewer: −1 behind the others.
        """
        return np.repeat(self.choose(batch, training, rng)[:, None], count, 1)

    def observe(  # noqa: B027
        self,
        batch: Batch,
        negatives: NDArray[np.int32],
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        """Learn what the last choice led to.

        Args:
            batch: of the last `choose`.
            negatives: int32 [b, n], −1 for none.
            step: of the update with them.
            training: after that update.
            rng: every random draw comes from it.
        """

    def state_dict(self) -> dict[str, Any]:
        """What it has learned in this run, for `ranking.checkpoint`; nothing where it does not learn."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Continue from `state_dict`, after `start_run`."""
