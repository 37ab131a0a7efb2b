"""Chooses shares of functions and a window of ranks: continuous actions, by a rule of a few parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.batch import Batch
from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from ranking.training import RankerTraining
from rl.progress import Progress, ProgressOptions
from sampling.policies.policy import SamplingPolicy
from sampling.policies.shares import reindexed, share_negatives, share_queries
from sampling.retrieval.function import RetrievalFunction

WINDOWS = {"none": 0, "to": 1, "from_to": 2}
FORMAT = "pyrite-mixture-1"


@dataclass(frozen=True)
class MixtureActions:
    """What a mixture policy decides (`actions=mixture`).

    Args:
        each: None shares the negatives of each query out among the functions. A number: the first function supplies
            all queries, and each other one so many negatives to its share of the queries.
        window: what it decides of lists: `none`, `to` (the last rank that is seen) or `from_to`.
        least: the smallest last rank.
        costs: by function, what the return of a training loses where all negatives that are shared out come from it, in
            the measure's own units: what refreshing an index is worth to whoever pays for it.

    Raises:
        BadInput: where an option is out of its range.
    """

    each: int | None = None
    window: str = "to"
    least: int = 4
    costs: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for name, value in (("each", self.each), ("least", self.least)):
            if value is not None and value < 1:
                raise BadInput(f"{name} is {value}", f"actions.mixture.{name}", "choose a whole number from 1 up")
        if self.window not in WINDOWS:
            raise BadInput(f"no window {self.window!r}", "actions.mixture.window", f"choose {', '.join(WINDOWS)}")
        for name, cost in (self.costs or {}).items():
            if not 0 <= cost < np.inf:
                raise BadInput(f"the cost of {name} is {cost}", "actions.mixture.costs", "give a number from 0 up")

    def charged(self, functions: Sequence[str], shares: NDArray[np.float64]) -> float:
        """What the return of a training is charged for its shares of the functions.

        Args:
            functions: their names.
            shares: of each decision [decisions, functions].
        """
        costs = self.costs or {}
        return float(sum(costs.get(name, 0.0) * shares[:, at].mean() for at, name in enumerate(functions)))

    def ranks(self, hardness: NDArray[np.float64], depth: int) -> tuple[int, int] | None:
        """The window at which one stands between the hardest (0) and the widest (1), ranks counted by their logarithm.

        Args:
            hardness: of the last rank and, for `from_to`, of the first, as a share of the way to the last.
            depth: of the longest list.
        """
        if not len(hardness) or not depth:
            return None
        least = min(self.least, depth)
        last = round(least * (depth / least) ** float(hardness[0]))
        first = 1 if len(hardness) == 1 else round(float(max(last - least, 1)) ** float(hardness[1]))
        return min(first, last), last


@dataclass(frozen=True)
class Rule(ABC):
    """A mixture policy's parameters, and what they say of a state.

    Args:
        parameters: float64 [size].
        functions: how many there are.
        windows: numbers that describe a window.
        features: names of what it is told.
    """

    parameters: NDArray[np.float64]
    functions: int
    windows: int
    features: tuple[str, ...]
    kind: ClassVar[str]

    @staticmethod
    @abstractmethod
    def size(functions: int, windows: int, features: Sequence[str]) -> int:
        """How many parameters there are."""

    @abstractmethod
    def __call__(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shares of the functions, adding up to 1, and the hardness of the window, 0 to 1 each."""


class LinearRule(Rule):
    """A softmax of linear scores: with two functions the share of the second is σ(w·s), the window's hardness σ(v·s).

    The first function's score is 0. With the features `one` and `spent` alone it is a logistic schedule.
    """

    kind = "linear"

    @staticmethod
    def size(functions: int, windows: int, features: Sequence[str]) -> int:
        return (functions - 1 + windows) * len(features)

    def __call__(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        scores = self.parameters.reshape(-1, len(self.features)) @ state
        of_functions = np.concatenate([[0.0], scores[: self.functions - 1]])
        shares = np.exp(of_functions - of_functions.max())
        return shares / shares.sum(), 1 / (1 + np.exp(-np.clip(scores[self.functions - 1 :], -500, 500)))


class ScheduleRule(Rule):
    """An open-loop schedule: from some shares and a window to others, along a power of the budget that is spent.

    Every parameter lies within 0 and 1: when it begins (a share of the budget), how long it takes, its curvature (0: a
    cube root, ½: a line, 1: a cube), then for each function but the first its share at the beginning and at the end,
    and for each number of the window likewise. Shares that add up to more than 1 are scaled down.
    """

    kind = "schedule"

    @staticmethod
    def size(functions: int, windows: int, features: Sequence[str]) -> int:
        return 3 + 2 * (functions - 1 + windows)

    def __call__(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        spent = (float(state[self.features.index("spent")]) + 1) / 2
        begin, length, curvature = self.parameters[:3]
        done = float(np.clip((spent - begin) / max(length, 1e-9), 0, 1)) ** float(3.0 ** (2 * curvature - 1))
        start, end = self.parameters[3::2], self.parameters[4::2]
        now = start + (end - start) * done
        hard = now[: self.functions - 1] / max(1.0, float(now[: self.functions - 1].sum()))
        return np.concatenate([[max(0.0, 1 - float(hard.sum()))], hard]), now[self.functions - 1 :]


RULES: dict[str, type[Rule]] = {rule.kind: rule for rule in (LinearRule, ScheduleRule)}


@dataclass(frozen=True)
class MixtureAgent:
    """What `pyrite learn actions=mixture` leaves, and `policy=learned` takes.

    Args:
        functions: names, in their order.
        actions: what it decides.
        state: what it is told.
        decision_every: batches between two decisions.
        rule: kind of its rule, of `RULES`.
        parameters: float64, of the rule.
        facts: how it was learned, for reports.
    """

    functions: list[str]
    actions: MixtureActions
    state: ProgressOptions
    decision_every: int
    rule: str
    parameters: NDArray[np.float64]
    facts: dict[str, Any]
    documents: ClassVar[int | None] = None

    def decide(self) -> Rule:
        """Its rule."""
        return RULES[self.rule](
            self.parameters, len(self.functions), WINDOWS[self.actions.window], tuple(self.state.features)
        )

    def to_bytes(self) -> bytes:
        """As a safetensors file."""
        plain = vars(self) | {"actions": asdict(self.actions), "state": asdict(self.state)}
        return to_bytes({"agent": FORMAT, **plain})

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> MixtureAgent:
        """What `to_bytes` wrote.

        Raises:
            BadInput: where it is something else.
        """
        state = from_bytes(content, where)
        if not isinstance(state, dict) or state.pop("agent", None) != FORMAT:
            raise BadInput("is not a learned mixture", where, "name the folder of a `pyrite learn actions=mixture`")
        actions, options = MixtureActions(**state["actions"]), ProgressOptions(**state["state"])
        return cls(**state | {"actions": actions, "state": options})


class MixturePolicy(SamplingPolicy):
    """A frozen mixture agent over a fresh ranker: every N batches it decides on shares and a window of ranks.

    Args:
        agent: what decides.

    Attributes:
        decisions: of each its step, shares and window.
        states: what each decision saw.
    """

    def __init__(self, agent: MixtureAgent) -> None:
        self.agent, self.rule = agent, agent.decide()
        self.shares: NDArray[np.float64] = np.zeros(0)
        self.decisions: list[list[float]] = []
        self.states: list[list[float]] = []

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.indices = [list(functions).index(name) for name in self.agent.functions]
        own = {name: functions[name] for name in self.agent.functions}
        self.depth = max(function.depth for function in own.values())
        self.progress = Progress(self.agent.state, own, training)

    def decide(self, training: RankerTraining) -> None:
        """Choose shares and window for the next batches."""
        last = float(1 - self.shares[0]) if len(self.shares) else None
        state = self.progress.observe(training, last)
        self.shares, hardness = self.rule(state)
        self.window = self.agent.actions.ranks(hardness, self.depth)
        self.decisions.append([float(training.step), *map(float, self.shares), *map(float, self.window or ())])
        self.states.append(list(map(float, state)))

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return self.assign(batch, 1, training, rng)[:, 0]

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if not len(self.shares) or training.step % self.agent.decision_every == 0:
            self.decide(training)
        each = self.agent.actions.each
        if each is None:
            assigned = share_negatives(np.cumsum(self.shares)[:-1], len(batch), count, rng)
        else:
            assigned = share_queries(self.shares, len(batch), count, each, rng)
        return reindexed(assigned, np.array(self.indices))

    def state_dict(self) -> dict[str, Any]:
        return {
            "shares": self.shares,
            "window": list(self.window or ()),
            "decisions": self.decisions,
            "states": self.states,
            "progress": self.progress.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.shares, self.decisions, self.states = state["shares"], list(state["decisions"]), list(state["states"])
        self.window = (state["window"][0], state["window"][1]) if state["window"] else None
        self.progress.load_state_dict(state["progress"])
