"""Chooses shares of functions and a window of ranks: continuous actions, by a rule with a few parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.batch import Batch
from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.training import RankerTraining
from pyrite.rl.progress import ProgressOptions, TrainingProgress
from pyrite.sampling.policies.policy import ByNegative
from pyrite.sampling.policies.shares import reindexed, share_negatives, share_queries
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.simans import of_lists

WINDOWS = {"none": 0, "to": 1, "from_to": 2}
FORMAT = "pyrite-mixture-1"


@checked
@dataclass(frozen=True)
class MixtureActions:
    """The decisions of a mixture policy (`actions=mixture`).

    Args:
        each: if it is a number, the first function supplies all queries, and every other function supplies `each`
            negatives to its share of the queries. None shares out the negatives of each query among the functions.
        window: what it decides about lists: `none`, `to` (the last visible rank) or `from_to`.
        least: the smallest last rank.
        scores: whether it also decides on a choice by the ranker's scores: the number of candidates m, and SimANS's a
            and b. It contains uniform draws, the highest score of m, and the neighbourhood of the positive.
        costs: by function, the loss of return if all shared-out negatives come from it, in units of the measure, e.g.
            {dense: 0.01}: what refreshing an index costs the user. None for no costs.
    """

    each: Annotated[int, AtLeast(1)] | None = None
    window: Literal["none", "to", "from_to"] = "to"
    least: Annotated[int, AtLeast(1)] = 4
    scores: bool = False
    costs: Mapping[str, Annotated[float, NonNegative]] | None = None

    @property
    def values(self) -> int:
        """The number of values that describe a decision in addition to the shares."""
        return WINDOWS[self.window] + 3 * self.scores

    def choice(self, hardness: NDArray[np.float64], depth: int) -> tuple[int, float, float] | None:
        """Return candidates m, a and b of a choice by scores; None if it makes none, or there are no lists.

        The last three values of `hardness` are m as a share of log depth, x with a = x/(1 − x), at most 99, and y with
        b = 20·y − 10.
        """
        if not self.scores or not depth:
            return None
        m, x, y = map(float, hardness[-3:])
        return round(depth**m), min(x / max(1 - x, 1e-9), 99.0), 20 * y - 10

    def charged(self, functions: Sequence[str], shares: NDArray[np.float64]) -> float:
        """Return the cost of a training, which its return is reduced by: of the shares [decisions, functions]."""
        costs = self.costs or {}
        return float(sum(costs.get(name, 0.0) * shares[:, at].mean() for at, name in enumerate(functions)))

    def ranks(self, hardness: NDArray[np.float64], depth: int) -> tuple[int, int] | None:
        """Return the window at a hardness between the hardest (0) and the widest (1), on a logarithmic scale of ranks.

        `hardness` begins with that of the last rank and, for `from_to`, of the first, as a share of the way there.
        """
        hardness = hardness[: WINDOWS[self.window]]
        if not len(hardness) or not depth:
            return None
        least = min(self.least, depth)
        last = round(least * (depth / least) ** float(hardness[0]))
        first = 1 if len(hardness) == 1 else round(float(max(last - least, 1)) ** float(hardness[1]))
        return min(first, last), last


@dataclass(frozen=True)
class MixtureRule(ABC):
    """The parameters of a mixture policy, and the decision that they make in a state."""

    parameters: NDArray[np.float64]
    functions: int
    windows: int
    """Number of values that describe a window and a choice by scores."""
    features: tuple[str, ...]
    kind: ClassVar[str]

    @staticmethod
    @abstractmethod
    def size(functions: int, windows: int, features: Sequence[str]) -> int:
        """Return the number of parameters."""

    @abstractmethod
    def __call__(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the shares of the functions, which add up to 1, and the hardness of the window, 0 to 1 each."""


class LinearRule(MixtureRule):
    """A softmax of linear scores: with two functions the second's share is σ(w·s), and the window's hardness σ(v·s).

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


class ScheduleRule(MixtureRule):
    """An open-loop schedule: from one action to another, along a power of the spent share of the budget.

    Every parameter is between 0 and 1: when the schedule begins (a share of the budget), how long it takes, its
    curvature (0: a cube root, ½: a line, 1: a cube), then for each function but the first its share at the beginning
    and at the end, and the same for each value of the window. Shares that add up to more than 1 are scaled down.
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


RULES: dict[str, type[MixtureRule]] = {rule.kind: rule for rule in (LinearRule, ScheduleRule)}


@dataclass(frozen=True)
class MixtureAgent:
    """A learned mixture: the result of `pyrite learn actions=mixture`, and the input of `policy=learned`.

    Args:
        decision_every: number of batches between two decisions.
        rule: the kind of its rule, a key of `RULES`.
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

    def decide(self) -> MixtureRule:
        """Return its rule."""
        return RULES[self.rule](self.parameters, len(self.functions), self.actions.values, tuple(self.state.features))

    def to_bytes(self) -> bytes:
        """Return it as a safetensors file."""
        plain = vars(self) | {"actions": asdict(self.actions), "state": asdict(self.state)}
        return to_bytes({"agent": FORMAT, **plain})

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> MixtureAgent:
        """Read the file that `to_bytes` wrote.

        Raises:
            BadInput: if it is another file, or an older version wrote it with other options.
        """
        state = from_bytes(content, where)
        if not isinstance(state, dict) or state.pop("agent", None) != FORMAT:
            raise BadInput("is not a learned mixture", where, "name the folder of a `pyrite learn actions=mixture`")
        try:
            actions, options = MixtureActions(**state["actions"]), ProgressOptions(**state["state"])
            return cls(**state | {"actions": actions, "state": options})
        except (TypeError, KeyError):
            raise BadInput("is a mixture of another version of Pyrite", where, "learn it again") from None


class MixturePolicy(ByNegative):
    """A frozen mixture agent over a fresh ranker: every N batches it decides on shares and a window of ranks.

    Attributes:
        decisions: step, shares, window and choice by scores of each decision.
        states: the state of each decision.
    """

    def __init__(self, agent: MixtureAgent) -> None:
        self.agent, self.rule, self.each = agent, agent.decide(), agent.actions.each
        self.shares: NDArray[np.float64] = np.zeros(0)
        self.choice: tuple[int, float, float] | None = None
        self.decisions: list[list[float]] = []
        self.states: list[list[float]] = []

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.indices = [list(functions).index(name) for name in self.agent.functions]
        self.mixed = {name: functions[name] for name in self.agent.functions}
        self.depth = max(function.depth for function in self.mixed.values())
        self.progress = TrainingProgress(self.agent.state, self.mixed, training)

    def decide(self, training: RankerTraining) -> None:
        """Choose shares and window for the next batches."""
        last = float(1 - self.shares[0]) if len(self.shares) else None
        state = self.progress.observe(training, last)
        self.shares, hardness = self.rule(state)
        self.window = self.agent.actions.ranks(hardness, self.depth)
        self._choose(self.agent.actions.choice(hardness, self.depth))
        decided = (*self.shares, *(self.window or ()), *(self.choice or ()))
        self.decisions.append([float(training.step), *map(float, decided)])
        self.states.append(list(map(float, state)))

    def _choose(self, choice: tuple[int, float, float] | None) -> None:
        self.choice = choice
        self.selectors = of_lists(self.mixed, *choice) if choice else {}

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if not len(self.shares) or training.step % self.agent.decision_every == 0:
            self.decide(training)
        if self.each is None:
            assigned = share_negatives(np.cumsum(self.shares)[:-1], len(batch), count, rng)
        else:
            assigned = share_queries(self.shares, len(batch), count, self.each, rng)
        return reindexed(assigned, np.array(self.indices))

    def state_dict(self) -> dict[str, Any]:
        return {
            "shares": self.shares,
            "window": list(self.window or ()),
            "choice": list(self.choice or ()),
            "decisions": self.decisions,
            "states": self.states,
            "progress": self.progress.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.shares, self.decisions, self.states = state["shares"], list(state["decisions"]), list(state["states"])
        self.window = (state["window"][0], state["window"][1]) if state["window"] else None
        choice = state["choice"]
        self._choose((int(choice[0]), choice[1], choice[2]) if choice else None)
        self.progress.load_state_dict(state["progress"])
