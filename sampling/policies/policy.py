"""Defines the interface of sampling policies: choose a retrieval function for each batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput, refuse
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.suppliers import Chooser

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
    from pyrite.sampling.selection.selector import Selector


class SamplingPolicy(Chooser):
    """Chooses, for every batch, the retrieval function that supplies its negatives (π in Cohen et al. 2019).

    A subclass defines `choose`. A policy that learns while the ranker does also defines `start_run`, `observe` and its
    state. The sampler calls `set_functions`, `selectors_of`, `start_run`, and for each batch `assign` and `observe`.

    Every policy takes its functions first, as `EasyFirst(Random(), BM25())`, also one whose constructor does not
    declare them.

    >>> class EasyFirst(SamplingPolicy):
    ...     def choose(self, batch, training, rng):
    ...         return np.full(len(batch), int(training.step >= 20))

    Attributes:
        chooses: whether it needs several functions to choose from.
        window: first and last rank, from 1, of the lists that selectors see; None for all ranks. It may change from
            batch to batch: it is read after `assign`.
        selectors: selectors that replace the run's, by the function's name. They may change in the same way.
        each: the negatives that every function but the first supplies to its share of the queries, while the first one
            supplies all queries; None if the policy has no such number.
        multiple: how many times `each` a function other than the first may supply to a query.
        taken: the decisions of a policy that compares actions: step, action, and `values` by action.
        independent: whether its choices depend only on its arguments, not on the ranker or on what it has observed, so
            that it can be asked ahead of time in another thread. Every class declares this itself; it is not inherited.
    """

    chooses: ClassVar[bool] = True
    independent: ClassVar[bool] = False
    window: tuple[int, int] | None = None
    selectors: Mapping[str, Selector] = MappingProxyType({})
    each: int | None = None
    multiple: ClassVar[int] = 1
    taken: Sequence[Mapping[str, Any]] = ()

    def set_functions(self, functions: list[str]) -> None:
        """Receive the names of the functions, in the order in which `choose` indexes them."""
        what = f"the policy chooses between functions, and there is only {', '.join(functions)}"
        refuse(self.chooses and len(functions) < 2, what, "function", "give a list: function=[random,bm25]")
        self.functions = functions

    def selectors_of(self, functions: Mapping[str, RetrievalFunction]) -> Mapping[str, Selector]:
        """Return the selectors that replace the run's from its first batch on, by the function's name.

        Args:
            functions: the functions by name, in the order of `set_functions`.
        """
        return self.selectors

    def set_counts(self, counts: Sequence[int]) -> None:
        """Receive the number of negatives that each function supplies, if a run sets them.

        Raises:
            BadInput: if the policy decides that itself.
        """
        raise BadInput(
            "the policy decides itself how many negatives each function supplies",
            "negatives",
            "give one number for all functions, as sampling.negatives=8, or choose policy=fixed",
        )

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        """Start with a ranker that is about to be trained.

        Called once before the first `choose`, and again before a saved state is loaded.

        Args:
            functions: the functions by name, in the order of `set_functions`.
            training: the training of the ranker; in mid-training if a run is resumed.
        """

    @abstractmethod
    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the index of a function for each query of the batch (int64 [b]; the same for all in most policies)."""

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the index of the function of each negative, int64 [b, count], ascending within a row.

        By default all negatives of a query come from the function that `choose` returns. A query may have fewer
        negatives: then −1 follows the others.
        """
        chosen = np.asarray(self.choose(batch, training, rng))
        what = f"{type(self).__name__} chose functions of shape {chosen.shape} for {len(batch)} queries"
        refuse(chosen.shape != (len(batch),), what, "policy", "return the index of a function for each query")
        return np.repeat(chosen[:, None], count, 1)

    def observe(
        self,
        batch: Batch,
        negatives: NDArray[np.int32],
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        """Learn from the result of the last choice.

        Args:
            batch: the batch of the last `choose`.
            negatives: int32 [b, n], −1 for none.
            step: the result of the update with them.
            training: the training after that update.
            rng: every random draw comes from it.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what it has learned in this run, for `pyrite.ranking.checkpoint`; empty if it does not learn."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`, after `start_run`."""


class ByNegative(SamplingPolicy):
    """Base of policies that choose a function for each negative: a subclass defines `assign`."""

    @abstractmethod
    def assign(
        self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator
    ) -> NDArray[np.int64]: ...

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return self.assign(batch, 1, training, rng)[:, 0]
