"""Chooses retrieval functions by a frozen agent, over a fresh ranker."""

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
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.function import RetrievalFunction


class LearnedPolicy(SamplingPolicy):
    """π(s, a, θ): what an agent of `pyrite learn` would do (AC-IR of Cohen et al. 2019).

    It observes the training as the agent did and draws its action, holding it as long as the agent did.

    Args:
        checkpoint: folder of a `pyrite learn`. None: a study learns the agent first.
        learn: overrides of that learning.
        agent: its seed. Several agents show how reliably one is learned.
        greedy: take the most probable action instead of drawing one.
    """

    def __init__(
        self,
        checkpoint: str | None = None,
        learn: Sequence[str] = (),
        agent: int = 0,
        greedy: bool = False,
    ) -> None:
        if agent < 0:
            raise BadInput(f"agent is {agent}", "policy.agent", "give a seed from 0 up")
        self.greedy = greedy
        self.action, self.held, self.first = 0, 0, True

    def equip(self, agent: TrainedAgent, tables: StateTables) -> None:
        """Hand over the agent, and what its states look up: the functions in the agent's order."""
        self.names, self.decision_every, self.actor = agent.functions, agent.decision_every, agent.actor()
        self.state = State(tables)

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.places = [list(functions).index(name) for name in self.names]

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.first or (
            training.position == 0 if self.decision_every == "epoch" else self.held >= int(self.decision_every)
        ):
            logits = logits_of(self.actor, self.state.observe(batch, training))
            drawn = inverse_cdf(logits[None], rng.random((1, 1)))
            self.action = int(logits.argmax() if self.greedy else drawn[0, 0])
            self.held, self.first = 0, False
        self.held += 1
        return np.full(len(batch), self.places[self.action], np.int64)

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
