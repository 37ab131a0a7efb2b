"""Selects the documents that an agent picked, while it learns and when it is frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ranking.bounds import NonNegative, checked
from ranking.training import Batch, RankerTraining, UpdateResult
from rl.draws import inverse_cdf, logits_of
from rl.state import State, StateTables
from rl.trained import TrainedAgent
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector


class Picks(Selector):
    """The documents at given positions of each query's list.

    A position beyond the end of a list yields no negative, and neither does a repeated one.

    Args:
        places: int64 [b or more, picks], positions from 0; row i belongs to the batch's i-th query.
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
        repeated = ((places[:, :, None] == places[:, None, :]) & before).any(axis=2)
        documents = np.take_along_axis(candidates.documents, places, 1)
        kept = ~repeated & (documents >= 0)
        scores = np.take_along_axis(candidates.scores, places, 1)
        return CandidateBatch(np.where(kept, documents, -1), np.where(kept, scores, -np.inf).astype(np.float32))


class LearnedSelector(Selector):
    """π(s, ·) over the documents nearest to each query: the picks of an agent of `pyrite learn actions=documents`.

    It observes the training as the agent did, and draws the requested number of documents from the probabilities of
    each query (Cohen et al. 2019, section 6.2).

    Args:
        checkpoint: folder or URI of a `pyrite learn`; None lets a study learn the agent first.
        learn: overrides of that learning, e.g. [actions.imitate.epochs=10,episodes=100].
        agent: seed of that learning. Several (selector.agent=0,1,2) show how reliably an agent is learned.
        greedy: whether the most probable documents are taken instead of drawing them.
    """

    @checked
    def __init__(
        self,
        checkpoint: str | None = None,
        learn: Sequence[str] = (),
        agent: Annotated[int, NonNegative] = 0,
        greedy: bool = False,
    ) -> None:
        self.greedy = greedy

    def equip(self, agent: TrainedAgent, tables: StateTables) -> None:
        """Set the agent, and the tables that its states are looked up in."""
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
        flat = logits_of(self.actor, self.state.observe(batch, training))
        # Query by query, and every pick of a query has the same logits.
        logits = flat.reshape(-1, self.actor.picks, self.documents)[: len(batch), 0]
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
