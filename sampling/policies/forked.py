"""Takes another action for some batches of a training, and follows its own policy before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.policy import ByNegative, Group, SamplingPolicy
from pyrite.sampling.policies.shares import reindexed
from pyrite.sampling.query_features import QuerySplit
from pyrite.sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult


class ForkedPolicy(ByNegative):
    """A policy that takes another action for some batches, to measure what that action is worth at that point.

    The policy does not see those batches, and resumes after them as it was. With a policy whose `each` is a number, the
    first function still supplies all queries, and the action's function supplies `each` negatives to every query.

    Args:
        own: names of the run's functions, in their order.
        action: the action; None follows the policy throughout, a fork that changes nothing.
        split, side: if given, only queries on this `side` of the split get the action, `below` or `above`; the others
            keep the policy.
        begin: number of batches before the action.
        batches: number of batches with the action.
        on_begin: called with the functions and the training before the first batch of the action.
        back: state of the sampler's generator after the action, so that later draws equal those of another fork; None
            lets the generator continue.
    """

    def __init__(
        self,
        policy: SamplingPolicy,
        own: list[str],
        action: Action | None = None,
        begin: int = 0,
        batches: int = 0,
        back: Any = None,
        on_begin: Callable[[dict[str, RetrievalFunction], RankerTraining], None] | None = None,
        split: QuerySplit | None = None,
        side: str | None = None,
    ) -> None:
        self.policy, self.own, self.action, self.split, self.side = policy, own, action, split, side
        self.begin, self.end, self.back, self.on_begin = begin, begin + batches, back, on_begin

    def set_functions(self, functions: list[str]) -> None:
        self.functions = functions
        self.policy.set_functions(self.own)
        self.indices = np.array([functions.index(name) for name in self.own])
        if self.action is not None:
            self.action.check(functions)

    def set_counts(self, counts: Any) -> None:
        self.policy.set_counts(counts)

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.own_functions = {name: functions[name] for name in self.own}
        self.policy.start_run(self.own_functions, training)
        if self.split is not None:
            self.split.start_run(functions, training)

    def acts(self, training: RankerTraining) -> bool:
        """Return whether the action replaces the policy now."""
        return self.action is not None and self.begin <= training.step < self.end

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if training.step == self.begin and self.on_begin is not None:
            self.on_begin(self.own_functions, training)
        if training.step == self.end and self.back is not None:
            rng.bit_generator.state = self.back
        if not self.acts(training):
            assigned = self.policy.assign(batch, count, training, rng)
            self.window, self.selectors, self.groups = self.policy.window, self.policy.selectors, self.policy.groups
            return reindexed(assigned, self.indices)
        assert self.action is not None
        rows = np.ones(len(batch), bool)
        if self.split is None:
            assigned, self.groups = np.empty((len(batch), count), np.int64), []
        else:
            rows = self.split.below(batch, training) == (self.side == "below")
            assigned = reindexed(self.policy.assign(batch, count, training, rng), self.indices).copy()
            kept = self.policy.groups or [Group(~rows, self.policy.window, self.policy.selectors)]
            self.groups = [group._replace(rows=group.rows & ~rows) for group in kept]
        acted = int(rows.sum())
        assigned[rows] = self.action.assign(self.functions, self.own, acted, count, self.policy.each, rng)
        self.groups = [*self.groups, Group(rows, self.action.window, self.action.selectors())]
        return assigned

    def observe(
        self,
        batch: Batch,
        negatives: NDArray[np.int32],
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        if self.action is None or not self.begin < training.step <= self.end:
            self.policy.observe(batch, negatives, step, training, rng)

    def state_dict(self) -> dict[str, Any]:
        return self.policy.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state)
