"""Lets an agent pick the documents of each batch, while it learns and when it is frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, checked
from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
from pyrite.rl.candidates import BM25_DEPTH
from pyrite.rl.draws import inverse_cdf, logits_of
from pyrite.rl.environment import Actions
from pyrite.rl.state import State, StateTables
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector


class Picks(Selector):
    """The documents at given positions of each query's list, which is cut to s_d documents.

    A position beyond the end of a list yields no negative, and neither does a repeated one.

    Args:
        places: int64 [b or more, picks], positions from 0; row i belongs to the batch's i-th query.
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
        places = self.places[: len(batch), :count]
        before = np.tri(places.shape[1], k=-1, dtype=bool)
        repeated = ((places[:, :, None] == places[:, None, :]) & before).any(axis=2)
        picked = function.top(batch, self.documents, rng).take(places)
        kept = ~repeated & (picked.documents >= 0)
        scores = np.where(kept, picked.scores, -np.inf).astype(np.float32)
        return CandidateBatch(np.where(kept, picked.documents, -1), scores)


class LearnedSelector(Selector):
    """π(s, ·) over the documents nearest to each query: the picks of an agent of `pyrite learn actions=documents`.

    It observes the training as the agent did, and draws the requested number of documents from the probabilities of
    each query (Cohen et al. 2019, section 6.2).

    Args:
        checkpoint: folder or URI of a `pyrite learn`; None lets a study learn the agent first.
        learn: overrides of that learning, each in quotes: ["actions.imitate.epochs=10","episodes=100"].
        agent: seed of that learning. Several (selector.agent=0,1,2) show how reliably an agent is learned.
        greedy: whether the most probable documents are taken instead of drawing them.
    """

    needs_training = True

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


HEAD = 10
"""Number of BM25's first documents, which are counted separately."""


class DocumentActions(Actions):
    """An action is one document for each negative of the batch (Cohen et al. 2019, section 6.2).

    Each query of the batch picks from the s_d documents nearest to it: the i-th choice is the i-th document of the
    list, which has no relevant documents. An action has an entry for every query of a full batch; entries beyond the
    end of a shorter one are ignored.

    Args:
        picks: negatives per query. They are drawn independently, and a document that was drawn before is left out.
    """

    lasting = False

    def __init__(self, documents: int, pairs: int, picks: int) -> None:
        self.documents, self.pairs, self.picks = documents, pairs, picks
        self.space = spaces.MultiDiscrete(np.full(pairs * picks, documents))
        self.names = [f"BM25 1-{HEAD}", f"BM25 {HEAD + 1}-{BM25_DEPTH}", f"not in BM25's {BM25_DEPTH}"]

    def apply(self, sampler: Sampler, action: Any) -> None:
        sampler.selector = Picks(np.asarray(action, np.int64).reshape(self.pairs, self.picks), self.documents)

    def to_record(self, action: Any, batch: Batch, tables: StateTables) -> list[int]:
        """Return the number of picks within BM25's first ten, within the rest of its list, and beyond it."""
        assert tables.candidates is not None
        places = np.asarray(action, np.int64).reshape(self.pairs, self.picks)[: len(batch)]
        nearness = tables.candidates[batch.queries[:, None], places, -1]
        head, listed = nearness > 1 - (HEAD - 0.5) / BM25_DEPTH, nearness > 0
        counts = [head.sum(), (listed & ~head).sum(), (~listed).sum()]
        return [int(count) for count in counts]

    def shares(self, taken: Sequence[list[int]]) -> dict[str, float]:
        counts = np.reshape(np.array(taken, np.int64), (-1, len(self.names))).sum(axis=0)
        return {name: float(count / max(counts.sum(), 1)) for name, count in zip(self.names, counts, strict=True)}
