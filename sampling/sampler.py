"""Supplies the negatives of each batch from policy, retrieval functions and selector."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from sampling.drawing import Drawn, Selection, draw
from sampling.function_stats import FunctionStats, RunningStats
from sampling.policies.policy import SamplingPolicy
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.function import RetrievalFunction
from sampling.selection.selector import Selector
from sampling.shown import ShownNegatives
from sampling.trace import Trace

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


AHEAD = ThreadPoolExecutor(1, "negatives")
"""Draws the negatives of a batch to come while the ranker learns from the one before."""


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
        selectors: by the name of a function, what picks from it in the selector's place.
        counts: by the name of each function how many it supplies to each query, in place of `count`, of a policy that
            does not decide that itself; None where it does.
        recorded: share of the queries of which is counted what they were shown (`sampling.shown`).
        source_scores: float32 [b, count], the functions' own scores of the last negatives; nan where they have none.
    """

    policy: SamplingPolicy
    functions: dict[str, RetrievalFunction]
    selector: Selector
    count: int
    rng: np.random.Generator
    guarded: dict[str, int] = field(default_factory=dict)
    selectors: Mapping[str, Selector] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None
    recorded: float = 0.0

    def __post_init__(self) -> None:
        self.policy.set_functions(list(self.functions))
        if self.counts is not None:
            self.policy.set_counts([self.counts[name] for name in self.functions])
            self.count = sum(self.counts.values())
        self.stats = {name: FunctionStats() for name in self.functions}
        self.trace = Trace()
        self.shown = ShownNegatives(self.recorded)
        self.source_scores = np.zeros((0, 0), np.float32)
        self._assigned: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._last: tuple[Batch, RankerTraining] | None = None
        self._selections: list[Selection] = []
        self._ahead: Future[Drawn] | None = None
        self._given = 0  # negatives of the epoch so far
        self._started = False
        self._learned: dict[str, Any] = {}  # loaded, put back after `start_run` of the parts

    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        """Document indices [b, count], −1 where a query fell short.

        Never a document that is judged relevant for its query, and none twice for one query: functions are seen by
        the selector without those (`FilteredFunction`), and what it picks is checked.

        Raises:
            BadInput: where the selector picked what it may not.
        """
        if not self._started:
            self._start_run(training)
        drawn = self._prepared(batch) or self._draw(batch, training)
        self._assigned, self._selections, self.source_scores = drawn.assigned, drawn.selections, drawn.source_scores
        self._last = (batch, training)
        for index, (name, function) in enumerate(self.functions.items()):
            self.stats[name].count(drawn.stats[name])
            function.after_selection(batch, drawn.negatives, drawn.assigned == index)
        self._given += int(np.count_nonzero(drawn.negatives >= 0))
        return drawn.negatives

    @property
    def foresees(self) -> bool:
        """Whether negatives depend on batch and generator alone, so that they can be drawn before the ranker learns."""
        parts = [*self.functions.values(), *(part for _, part in self._learners())]
        return all(vars(type(part)).get("independent", False) for part in parts)  # a subclass says so itself

    def prepare(self, batch: Batch, training: RankerTraining) -> None:
        """Begin to draw the negatives of the batch to come, in a thread: the same that `negatives` would draw.

        Does nothing where they depend on the ranker (`foresees`).
        """
        if self._started and self._ahead is None and self.foresees:
            self._ahead = AHEAD.submit(self._draw, batch, training)

    def _prepared(self, batch: Batch) -> Drawn | None:
        """What was drawn ahead for a batch; None for nothing, or for another batch, which then was not drawn."""
        if self._ahead is None:
            return None
        drawn, self._ahead = self._ahead.result(), None
        if drawn.of(batch):
            return drawn
        self.rng.bit_generator.state = drawn.rng
        return None

    def _draw(self, batch: Batch, training: RankerTraining) -> Drawn:
        selectors = {name: self.selectors.get(name, self.selector) for name in self.functions}
        return draw(batch, training, self.policy, self.functions, selectors, self.count, self._relevant, self.rng)

    @property
    def assigned(self) -> NDArray[np.int64]:
        """Which function each of the last negatives is from [b, count], by its place among them."""
        return self._assigned

    def _learners(self) -> list[tuple[str, SamplingPolicy | Selector]]:
        """What may learn, by the name of its state."""
        own = [(f"selector:{name}", selector) for name, selector in self.selectors.items()]
        return [("policy", self.policy), ("selector", self.selector), *own]

    def _start_run(self, training: RankerTraining) -> None:
        self._relevant = RelevantPairs(training.encoded.judgements, len(training.encoded.documents))
        for name, function in self.functions.items():
            if self._learned.get("functions", {}).get(name):
                function.load_state_dict(self._learned["functions"][name])
            function.start_run(training)
        for name, part in self._learners():
            part.start_run(self.functions, training)
            if self._learned.get(name):
                part.load_state_dict(self._learned[name])
        self._started = True

    def observe(self, negatives: NDArray[np.int32], step: UpdateResult) -> None:
        """Note how the ranker scored what it was shown last, and let policy, selector and functions learn from it.

        Raises:
            BadInput: at the end of an epoch in which no query had a negative.
        """
        self.trace.add(list(self.functions.values()), self._assigned, negatives, step.scores)
        for index, stats in enumerate(self.stats.values()):
            own = self._assigned == index
            if own.any():
                stats.positive.add(step.scores[own.any(1), 0])
                stats.negative.add(step.scores[:, 1:][own & (negatives >= 0)])
        if self._last is not None:
            (batch, training), self._last = self._last, None
            self.shown.add(batch.queries, negatives, self._assigned, step.scores, self.source_scores)
            self.policy.observe(batch, negatives, step, training, self.rng)
            for selector, rows, columns, part, selected in self._selections:
                of_selected = step.scores[rows[:, None], 1 + columns]
                of_part = replace(step, scores=np.concatenate([step.scores[rows, :1], of_selected], 1))
                selector.observe(part, selected, of_part, training, self.rng)
            for function in self.functions.values():
                function.after_update(training)
            if training.epoch_over:
                self._check_epoch(training)

    def _check_epoch(self, training: RankerTraining) -> None:
        """Refuse to go on after an epoch in which no query had a negative: a loss of nothing is always 0."""
        given, self._given = self._given, 0
        if not given and not training.diverged:
            raise BadInput(
                f"no query had a negative in the whole epoch ({type(self.selector).__name__} over "
                f"{', '.join(self.functions)})",
                "function",
                "is `depth` large enough, the guard not too strict, and does the run have the training queries?",
            )

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
                "fallback": stats.fallback,
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
                **{name: part.state_dict() for name, part in self._learners()},
                "functions": {name: state for name, state in functions.items() if state},
            }
        # What was drawn ahead has not been shown: it is drawn again from there.
        rng = self.rng.bit_generator.state if self._ahead is None else self._ahead.result().rng
        return {
            "rng": rng,
            "stats": {name: asdict(stats) for name, stats in self.stats.items()},
            "trace": self.trace.arrays(),
            "shown": self.shown.arrays(),
            "given": self._given,
            **learned,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`.

        At the next `negatives` policy, selector and functions start again with what they had learned.
        """
        if self._ahead is not None:
            self._ahead.result()
            self._ahead = None
        self.rng.bit_generator.state = state["rng"]
        for name, values in state["stats"].items():
            running = {key: RunningStats(**values[key]) for key in ("positive", "negative")}
            self.stats[name] = FunctionStats(**(values | running))
        self._given = state.get("given", 0)
        if "trace" in state:
            self.trace.load(state["trace"])
        if "shown" in state:
            self.shown.load(state["shown"])
        named = [*(name for name, _ in self._learners()), "functions"]
        self._learned = {name: state[name] for name in named if name in state}
        self._started = False
