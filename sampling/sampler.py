"""Policy, functions and selector together: what supplies a batch's negatives."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.function import Offer, RetrievalFunction
from sampling.selection.selector import Selector
from sampling.trace import Trace

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


@dataclass
class Spread:
    """Mean, deviation and range of values that come in batches."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, values: NDArray[np.floating]) -> None:
        """Count some more values."""
        if values.size:
            exact = values.astype(np.float64)
            self.count += exact.size
            self.total += float(exact.sum())
            self.squares += float(np.square(exact).sum())
            self.low, self.high = min(self.low, float(exact.min())), max(self.high, float(exact.max()))

    def row(self, name: str) -> dict[str, float]:
        """The four figures, named; nan where there was nothing."""
        mean = self.total / self.count if self.count else math.nan
        deviation = math.sqrt(max(self.squares / self.count - mean**2, 0)) if self.count else math.nan
        values = (mean, deviation, self.low, self.high) if self.count else (math.nan,) * 4
        return {f"{name}_{figure}": value for figure, value in zip(("mean", "std", "min", "max"), values, strict=True)}


@dataclass
class Tally:
    """What one function supplied in a run, and how the ranker scored it when it was shown."""

    batches: int = 0
    wanted: int = 0
    missing: int = 0
    positive: Spread = field(default_factory=Spread)
    negative: Spread = field(default_factory=Spread)


@dataclass
class Sampler:
    """π, f and the selection of negatives (Cohen et al. 2019, section 3.1.1).

    `negatives` and `observe` take turns; a state is saved or loaded before `negatives`, not between the two.

    Args:
        policy: chooses the function.
        functions: by name; they are ready.
        selector: picks from what the function offers.
        count: negatives for each query.
        rng: all its chance.
        guarded: documents that the guard dropped from each function's lists, for the report.
    """

    policy: SamplingPolicy
    functions: dict[str, RetrievalFunction]
    selector: Selector
    count: int
    rng: np.random.Generator
    guarded: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.policy.ready(list(self.functions))
        self.tallies = {name: Tally() for name in self.functions}
        self.trace = Trace()
        self._origins: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._last: tuple[Batch, RankerTraining] | None = None
        self._selections: list[tuple[NDArray[np.intp], NDArray[np.intp], Batch, Offer]] = []
        self._begun = False
        self._learned: dict[str, Any] = {}  # loaded, and to be put back when the parts begin

    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        """Document indices [b, count], −1 where a query fell short.

        Never a document judged relevant for its query.
        """
        if not self._begun:
            self._begin(training)
        origins = self._origins = self.policy.origins(batch, self.count, training, self.rng)
        self._last, self._selections = (batch, training), []
        negatives = np.full((len(batch), self.count), -1, np.int32)
        for index, (name, function) in enumerate(self.functions.items()):
            tally, counts = self.tallies[name], (origins == index).sum(1)
            tally.batches += bool(counts.any())
            for count in np.unique(counts[counts > 0]):
                rows = np.flatnonzero(counts == count)
                part = batch if len(rows) == len(batch) else batch.take(rows)
                offer = self.selector.select(part, function, int(count), training, self.rng)
                first = (origins[rows] < index).sum(1)[:, None]  # a function's negatives stand together
                columns = first + np.arange(count)
                negatives[rows[:, None], columns[:, : offer.documents.shape[1]]] = offer.documents
                self._selections.append((rows, columns, part, offer))
                tally.wanted += len(rows) * int(count)
                tally.missing += int(np.count_nonzero(negatives[rows[:, None], columns] < 0))
        return negatives

    def _begin(self, training: RankerTraining) -> None:
        for name, function in self.functions.items():
            if self._learned.get("functions", {}).get(name):
                function.load_state_dict(self._learned["functions"][name])
            function.begin(training)
        for name, part in (("policy", self.policy), ("selector", self.selector)):
            part.begin(self.functions, training)
            if self._learned.get(name):
                part.load_state_dict(self._learned[name])
        self._begun = True

    def observe(self, negatives: NDArray[np.int32], step: UpdateResult) -> None:
        """Note how the ranker scored what it was shown last, and let policy, selector and functions learn from it."""
        self.trace.add(list(self.functions.values()), self._origins, negatives, step.scores)
        for index, tally in enumerate(self.tallies.values()):
            own = self._origins == index
            if own.any():
                tally.positive.add(step.scores[own.any(1), 0])
                tally.negative.add(step.scores[:, 1:][own & (negatives >= 0)])
        if self._last is not None:
            (batch, training), self._last = self._last, None
            self.policy.observe(batch, negatives, step, training, self.rng)
            for rows, columns, part, offer in self._selections:
                of_offer = step.scores[rows[:, None], 1 + columns]
                of_part = replace(step, scores=np.concatenate([step.scores[rows, :1], of_offer], 1))
                self.selector.observe(part, offer, of_part, training, self.rng)
            for function in self.functions.values():
                function.follow(training)

    def traced(self) -> dict[str, NDArray[Any]]:
        """What each update was shown, by step: see `Trace`."""
        return self.trace.arrays()

    def report(self) -> list[dict[str, Any]]:
        """A row a function: what it supplied, took from elsewhere, fell short of and was guarded away, and the
        ranker's scores of it.

        The scores are those at the time of showing, before the update.
        """
        return [
            {
                "function": name,
                "batches": tally.batches,
                "negatives": tally.wanted - tally.missing,
                "missing": tally.missing,
                "fallback": self.functions[name].fallback,
                "guarded": self.guarded.get(name, 0) + self.functions[name].guarded,
                **tally.positive.row("positive"),
                **tally.negative.row("negative"),
            }
            for name, tally in self.tallies.items()
        ]

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to draw what it would have drawn."""
        learned = self._learned
        if self._begun:
            functions = {name: function.state_dict() for name, function in self.functions.items()}
            learned = {
                "policy": self.policy.state_dict(),
                "selector": self.selector.state_dict(),
                "functions": {name: state for name, state in functions.items() if state},
            }
        return {
            "rng": self.rng.bit_generator.state,
            "tallies": {n: asdict(t) for n, t in self.tallies.items()},
            "trace": self.trace.arrays(),
            **learned,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`.

        At the next `negatives` policy, selector and functions begin again with what they had learned.
        """
        self.rng.bit_generator.state = state["rng"]
        for name, values in state["tallies"].items():
            spreads = {key: Spread(**values[key]) for key in ("positive", "negative")}
            self.tallies[name] = Tally(**(values | spreads))
        if "trace" in state:
            self.trace.load(state["trace"])
        self._learned = {part: state[part] for part in ("policy", "selector", "functions") if part in state}
        self._begun = False
