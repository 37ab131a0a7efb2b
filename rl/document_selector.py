"""Selects the documents that an agent picked, while it learns and once it is frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from ranking.training import Batch, RankerTraining, UpdateResult
from rl.draws import inverse_cdf, logits_of
from rl.state import State, StateTables
from rl.trained import TrainedAgent
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector


class Picks(Selector):
    """The documents at certain places of each query's list.

    A place beyond the end of a list gives no negative, and neither does one that stands twice in a row.

    Args:
        places: int64 [b or more, picks], from 0; row i belongs to the batch's i-th query.
        documents: s_d, the length that lists are cut to.
    """

    def __init__(self, places: NDArray[np.int64], documents: int) -> None:
        self.places, self.documents = places, documents

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        candidates = function.top(batch, self.documents, rng)
        places = self.places[: len(batch), :count]
        before = np.tri(places.shape[1], k=-1, dtype=bool)
        again = ((places[:, :, None] == places[:, None, :]) & before).any(axis=2)
        documents = np.take_along_axis(candidates.documents, places, 1)
        kept = ~again & (documents >= 0)
        scores = np.take_along_axis(candidates.scores, places, 1)
        return CandidateBatch(np.where(kept, documents, -1), np.where(kept, scores, -np.inf).astype(np.float32))


class LearnedSelector(Selector):
    """π(s, ·) over the documents nearest to each query: what an agent of `pyrite learn actions=documents` would pick.

    It observes the training as the agent did and draws as many documents as are asked for from the chances of each
    query (Cohen et al. 2019, section 6.2).

    Args:
        checkpoint: folder of a `pyrite learn`. None: a study learns the agent first.
        learn: overrides of that learning.
        agent: its seed. Several agents show how reliably one is learned.
        greedy: take the most probable documents instead of drawing them.
    """

    def __init__(
        self,
        checkpoint: str | None = None,
        learn: Sequence[str] = (),
        agent: int = 0,
        greedy: bool = False,
    ) -> None:
        if agent < 0:
            raise BadInput(f"agent is {agent}", "selector.agent", "give a seed from 0 up")
        self.greedy = greedy

    def equip(self, agent: TrainedAgent, tables: StateTables) -> None:
        """Hand over the agent, and what its states look up."""
        assert agent.documents is not None
        self.actor, self.documents, self.state = agent.actor(), agent.documents, State(tables)

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> CandidateBatch:
        chances = logits_of(self.actor, self.state.observe(batch, training))
        # Query by query, and every pick of a query has the same logits.
        logits = chances.reshape(-1, self.actor.picks, self.documents)[: len(batch), 0]
        if self.greedy:
            places = np.argsort(-logits, axis=1, kind="stable")[:, :count]
        else:
            places = inverse_cdf(logits, rng.random((len(batch), count)))
        return Picks(places, self.documents).select(batch, function, count, training, rng)

    def observe(
        self,
        batch: Batch,
        selected: CandidateBatch,
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        self.state.note(step, first=training.step == 1)

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state.load_state_dict(state["state"])
