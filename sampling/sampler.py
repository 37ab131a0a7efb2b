"""Supplies the negatives of each batch from policy, retrieval functions and selector."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampling.function_stats import FunctionStats, RunningStats
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector
from sampling.trace import Trace

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


@dataclass
class Sampler:
    """π, f and the selection of negatives (Cohen et al. 2019, section 3.1.1).

    `negatives` and `observe` take turns; a state is saved or loaded before `negatives`, not between the two.

    Args:
        policy: chooses the function.
        functions: by name, prepared.
        selector: picks from what the function offers.
        count: negatives for each query.
        rng: every random draw comes from it.
        guarded: documents that the guard dropped from each function's lists, for the report.
    """

    policy: SamplingPolicy
    functions: dict[str, RetrievalFunction]
    selector: Selector
    count: int
    rng: np.random.Generator
    guarded: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.policy.set_functions(list(self.functions))
        self.stats = {name: FunctionStats() for name in self.functions}
        self.trace = Trace()
        self._assigned: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._last: tuple[Batch, RankerTraining] | None = None
        self._selections: list[tuple[NDArray[np.intp], NDArray[np.intp], Batch, CandidateBatch]] = []
        self._started = False
        self._learned: dict[str, Any] = {}  # loaded, put back after `start_run` of the parts

    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        """Document indices [b, count], −1 where a query fell short.

        Never a document judged relevant for its query.
        """
        if not self._started:
            self._start_run(training)
        assigned = self._assigned = self.policy.assign(batch, self.count, training, self.rng)
        self._last, self._selections = (batch, training), []
        negatives = np.full((len(batch), self.count), -1, np.int32)
        for index, (name, function) in enumerate(self.functions.items()):
            stats, counts = self.stats[name], (assigned == index).sum(1)
            stats.batches += bool(counts.any())
            for count in np.unique(counts[counts > 0]):
                rows = np.flatnonzero(counts == count)
                part = batch if len(rows) == len(batch) else batch.take(rows)
                offer = self.selector.select(part, function, int(count), training, self.rng)
                first = (assigned[rows] < index).sum(1)[:, None]  # a function's negatives stand together
                columns = first + np.arange(count)
                negatives[rows[:, None], columns[:, : offer.documents.shape[1]]] = offer.documents
                self._selections.append((rows, columns, part, offer))
                stats.wanted += len(rows) * int(count)
                stats.missing += int(np.count_nonzero(negatives[rows[:, None], columns] < 0))
        return negatives

    def _start_run(self, training: RankerTraining) -> None:
        for name, function in self.functions.items():
            if self._learned.get("functions", {}).get(name):
                function.load_state_dict(self._learned["functions"][name])
            function.start_run(training)
        for name, part in (("policy", self.policy), ("selector", self.selector)):
            part.start_run(self.functions, training)
            if self._learned.get(name):
                part.load_state_dict(self._learned[name])
        self._started = True

    def observe(self, negatives: NDArray[np.int32], step: UpdateResult) -> None:
        """Note how the ranker scored what it was shown last, and let policy, selector and functions learn from it."""
        self.trace.add(list(self.functions.values()), self._assigned, negatives, step.scores)
        for index, stats in enumerate(self.stats.values()):
            own = self._assigned == index
            if own.any():
                stats.positive.add(step.scores[own.any(1), 0])
                stats.negative.add(step.scores[:, 1:][own & (negatives >= 0)])
        if self._last is not None:
            (batch, training), self._last = self._last, None
            self.policy.observe(batch, negatives, step, training, self.rng)
            for rows, columns, part, offer in self._selections:
                of_offer = step.scores[rows[:, None], 1 + columns]
                of_part = replace(step, scores=np.concatenate([step.scores[rows, :1], of_offer], 1))
                self.selector.observe(part, offer, of_part, training, self.rng)
            for function in self.functions.values():
                function.after_update(training)

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
                "batches": stats.batches,
                "negatives": stats.wanted - stats.missing,
                "missing": stats.missing,
                "fallback": self.functions[name].fallback,
                "guarded": self.guarded.get(name, 0) + self.functions[name].guarded,
                **stats.positive.row("positive"),
                **stats.negative.row("negative"),
            }
            for name, stats in self.stats.items()
        ]

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to draw what it would have drawn."""
        learned = self._learned
        if self._started:
            functions = {name: function.state_dict() for name, function in self.functions.items()}
            learned = {
                "policy": self.policy.state_dict(),
                "selector": self.selector.state_dict(),
                "functions": {name: state for name, state in functions.items() if state},
            }
        return {
            "rng": self.rng.bit_generator.state,
            "stats": {name: asdict(stats) for name, stats in self.stats.items()},
            "trace": self.trace.arrays(),
            **learned,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`.

        At the next `negatives` policy, selector and functions start again with what they had learned.
        """
        self.rng.bit_generator.state = state["rng"]
        for name, values in state["stats"].items():
            running = {key: RunningStats(**values[key]) for key in ("positive", "negative")}
            self.stats[name] = FunctionStats(**(values | running))
        if "trace" in state:
            self.trace.load(state["trace"])
        self._learned = {part: state[part] for part in ("policy", "selector", "functions") if part in state}
        self._started = False
