"""Chooses between two actions for each query, by a feature of the query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, Between, checked
from pyrite.ranking.errors import BadInput
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.policy import ByNegative, Group
from pyrite.sampling.query_features import Feature, QuerySplit
from pyrite.sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult


class ByQuery(ByNegative):
    """One action for queries with a low feature, and another one for the others.

    What a negative teaches may depend on the query: a hard one may help if the relevant document is ranked first, and
    be relevant itself if it is not. `pyrite fork RUN by=FEATURE` measures whether there is anything to gain.

    Args:
        feature: what is known of a query. `positive_rank`: the rank of its relevant document in the list of the first
            function that has lists; `score_gap`: that document's score less the best other's; `guard_margin`: the same
            by the guard; `margin`: the ranker's score of the positive less the best of the list's first 16.
        quantile: the share of the queries that get the first action: those with the lowest feature.
        actions: two actions, as `pyrite fork` writes them: in_batch, bm25:1-4, bm25@simans, bm25@dynamic:64, bm25*.5.
            None takes `simans` over the last function, and the first function.
        each: if it is a number, the first function supplies all queries, and an action's function supplies `each`
            negatives to its queries, or a multiple of it (bm25*4).

    Raises:
        BadInput: if there are not two actions, or an action names no function of the run.
    """

    @checked
    def __init__(
        self,
        feature: Feature = "positive_rank",
        quantile: Annotated[float, Between(0, 1, "both")] = 0.5,
        actions: Sequence[str] | None = None,
        each: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        if actions is not None and len(actions) != 2:
            what = f"{len(actions)} actions, and there are two kinds of queries"
            raise BadInput(what, "policy.actions", "give one for the low and one for the high: [bm25@simans,in_batch]")
        self.actions = [Action.parse(text) for text in actions or ()]
        self.split, self.each = QuerySplit(feature, quantile), each
        self.counts = [0, 0]
        self.taken: list[dict[str, Any]] = []

    def set_functions(self, functions: list[str]) -> None:
        super().set_functions(functions)
        self.actions = self.actions or [Action(functions[-1], selector="simans"), Action(functions[0])]
        for action in self.actions:
            action.check(functions)
        self.times = max(1, *(int(action.share) for action in self.actions))

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.split.start_run(functions, training)

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        below = self.split.below(batch, training)
        assigned = np.full((len(batch), count), -1, np.int64)
        self.groups = []
        for action, rows in zip(self.actions, (below, ~below), strict=True):
            size = int(rows.sum())
            assigned[rows] = action.assign(self.functions, self.functions, size, count, self.each, rng, self.times)
            self.groups.append(Group(rows, action.window, action.selectors()))
        return assigned

    def observe(
        self,
        batch: Batch,
        negatives: NDArray[np.int32],
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        self.counts = [count + int(group.rows.sum()) for count, group in zip(self.counts, self.groups, strict=True)]
        if training.epoch_over:
            shares = np.array(self.counts) / max(sum(self.counts), 1)
            values = dict(zip(map(str, self.actions), shares.tolist(), strict=True))
            self.taken.append({"step": training.step - 1, "action": None, "values": values})
            self.counts = [0, 0]

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts, "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts, self.taken = list(state["counts"]), list(state["taken"])
