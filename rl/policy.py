"""Chooses retrieval functions by a frozen agent, over a fresh ranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, checked
from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
from pyrite.rl.draws import inverse_cdf, logits_of
from pyrite.rl.state import State, StateTables
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.function import RetrievalFunction


class LearnedPolicy(SamplingPolicy):
    """π(s, a, θ): the choices of an agent of `pyrite learn` (AC-IR of Cohen et al. 2019).

    It observes the training as the agent did and draws its action, which it holds as long as the agent did.

    Args:
        checkpoint: folder or URI of a `pyrite learn`; None lets a study learn the agent first.
        learn: overrides of that learning, each in quotes: ["agent=ppo","episodes=100"].
        agent: seed of that learning. Several (policy.agent=0,1,2) show how reliably an agent is learned.
        greedy: whether the most probable action is taken instead of drawing one.
    """

    @checked
    def __init__(
        self,
        *functions: RetrievalFunction,
        checkpoint: str | None = None,
        learn: Sequence[str] = (),
        agent: Annotated[int, NonNegative] = 0,
        greedy: bool = False,
    ) -> None:
        super().__init__(*functions)
        self.greedy = greedy
        self.action, self.held, self.first = 0, 0, True

    def equip(self, agent: TrainedAgent, tables: StateTables) -> None:
        """Set the agent, and the tables that its states are looked up in: the functions in the agent's order."""
        self.names, self.decision_every, self.actor = agent.functions, agent.decision_every, agent.actor()
        self.state = State(tables)

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.indices = [list(functions).index(name) for name in self.names]

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.first or (
            training.position == 0 if self.decision_every == "epoch" else self.held >= int(self.decision_every)
        ):
            logits = logits_of(self.actor, self.state.observe(batch, training))
            drawn = inverse_cdf(logits[None], rng.random((1, 1)))
            self.action = int(logits.argmax() if self.greedy else drawn[0, 0])
            self.held, self.first = 0, False
        self.held += 1
        return np.full(len(batch), self.indices[self.action], np.int64)

    def observe(
        self,
        batch: Batch,
        negatives: NDArray[np.int32],
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        self.state.note(step, first=training.step == 1)

    def state_dict(self) -> dict[str, Any]:
        return {"action": self.action, "held": self.held, "first": self.first, "state": self.state.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.action, self.held, self.first = state["action"], state["held"], state["first"]
        self.state.load_state_dict(state["state"])
