"""Follows what forks said an action is worth: the argmax of a regression, without a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.rl.progress import CLOCK, STATE, ProgressOptions, TrainingProgress
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.policy import ByNegative
from pyrite.sampling.retrieval.function import RetrievalFunction

FEATURES = {"clock": CLOCK, "state": STATE}


class FromForks(ByNegative):
    """At each decision the action with the highest value by a regression on forks (`pyrite fork RUN … --regress`).

    A fork measures what an action is worth in the end, so the regression is an advantage function with causal labels:
    no credit has to be assigned, and no critic learned. It was fitted around the policy of the forked run, so for
    a training under another policy it extrapolates.

    Args:
        forks: the output folder of the forks, with regression.json.
        by: `state` reads clock and state of the training, `clock` the clock alone.
        every: batches between two decisions; None for the forks' `length`.
        each: see `pyrite.sampling.policies.mixture.Mixture`.

    Raises:
        BadInput: if there is no regression in the folder, or an action names no function of the run.
    """

    @checked
    def __init__(
        self,
        forks: str,
        by: Literal["state", "clock"] = "state",
        every: Annotated[int, AtLeast(1)] | None = None,
        each: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        path = Path(forks) / "regression.json"
        try:
            fitted = json.loads(path.read_text("utf-8"))
            self.actions = [Action.parse(text) for text in fitted["actions"]]
            self.weights = np.array(fitted[by], float)
            self.every = every or int(fitted["length"])
        except (OSError, ValueError, KeyError) as error:
            what = f"can't read a regression of forks: {error}"
            raise BadInput(what, str(path), "run `pyrite fork RUN --regress` first") from None
        self.by, self.each = by, each
        self.action: Action | None = None
        self.taken: list[dict[str, Any]] = []

    def set_functions(self, functions: list[str]) -> None:
        super().set_functions(functions)
        lacking = dict.fromkeys(action.function for action in self.actions if action.function not in functions)
        if lacking:
            what = f"the actions of these forks need {', '.join(lacking)} too"
            raise BadInput(what, "policy.forks", f"give function=[{','.join([*functions, *lacking])}]")

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.progress = TrainingProgress(ProgressOptions(FEATURES[self.by]), functions, training)

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.action is None or training.step % self.every == 0:
            values = self.weights @ self.progress.observe(training, None)
            self.action = self.actions[int(np.argmax(values))]
            by_action = dict(zip(map(str, self.actions), values.tolist(), strict=True))
            self.taken.append({"step": training.step, "action": str(self.action), "values": by_action})
        self.window, self.selectors = self.action.window, self.action.selectors()
        return self.action.assign(self.functions, self.functions, len(batch), count, self.each, rng)

    def state_dict(self) -> dict[str, Any]:
        return {"action": None if self.action is None else str(self.action), "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.action = None if state["action"] is None else Action.parse(state["action"])
        self.taken = list(state["taken"])
