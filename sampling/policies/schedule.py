"""Moves from easy to hard retrieval functions by a fixed schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, Fraction, NonNegative, checked
from pyrite.ranking.errors import BadInput
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining


class Schedule(Mixture):
    """A mixture that moves from the first functions to the last, hardest one while the ranker learns.

    The last function's share of the batches moves from `start` to `end`, and stays there; the others share the rest
    equally. Easy examples before hard ones is curriculum learning (Bengio et al. 2009). The other options are those of
    `Mixture`.

    Args:
        start: the last function's share at the first batch, 0 to 1.
        end: its share after the end of the schedule, 0 to 1.
        epochs: length of the schedule in epochs, from 0 up; fractions are allowed. None takes 2, or `steps`.
        steps: length of the schedule in batches, instead of `epochs`; None uses `epochs`.
        shape: `linear` moves with every batch; `switch` stays at `start` and then changes to `end` at once.
        per: `batch` draws one function per batch, `query` one per query, and `negative` shares out the negatives of
            each query.
        each: if it is a number, the first function supplies all queries, and every other function supplies `each`
            negatives to its share of the queries (see `pyrite.sampling.policies.mixture.Mixture`).

    Raises:
        BadInput: if both `epochs` and `steps` are given.
    """

    @checked
    def __init__(
        self,
        *functions: RetrievalFunction,
        start: Annotated[float, Fraction] = 0.0,
        end: Annotated[float, Fraction] = 1.0,
        epochs: Annotated[float, NonNegative] | None = None,
        steps: Annotated[int, NonNegative] | None = None,
        shape: Literal["linear", "switch"] = "linear",
        per: Literal["batch", "query", "negative"] = "batch",
        each: Annotated[int, AtLeast(1)] | None = None,
        window: Sequence[int] | None = None,
        candidates: Annotated[int, AtLeast(1)] | None = None,
        a: Annotated[float, NonNegative] = 1.0,
        b: float = 0.0,
    ) -> None:
        if epochs is not None and steps is not None:
            what = f"epochs is {epochs:g} and steps {steps}, and both are the length of the schedule"
            raise BadInput(what, "policy", "leave one of them out")
        super().__init__(*functions, per=per, each=each, window=window, candidates=candidates, a=a, b=b)
        self.start, self.end, self.shape = start, end, shape
        self.epochs, self.steps = 2.0 if epochs is None else epochs, steps

    def share(self, step: int, steps_per_epoch: int) -> float:
        """Return the last function's share at a batch.

        Args:
            step: number of batches since the start of the training.
        """
        length = self.epochs * steps_per_epoch if self.steps is None else self.steps
        if step >= length:
            return self.end
        return self.start + (self.end - self.start) * step / length if self.shape == "linear" else self.start

    def edges_at(self, training: RankerTraining) -> NDArray[np.float64]:
        easy = len(self.functions) - 1
        return (1 - self.share(training.step, training.steps_per_epoch)) * (np.arange(1, easy + 1) / easy)
