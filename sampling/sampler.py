"""Supplies the negatives of each batch from policy, retrieval functions and selector."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import refuse
from pyrite.sampling.drawing import BatchDraw, NegativeSources, Selection
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.shown import FunctionStats, RunningStats, ShownNegatives, Trace

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult


AHEAD = ThreadPoolExecutor(1, "negatives")
"""Draws the negatives of the next batch while the ranker learns from the current one."""


@dataclass
class Sampler:
    """The policy π, the retrieval functions f and the selection of negatives (Cohen et al. 2019, section 3.1.1).

    `negatives` and `observe` alternate. A state is saved or loaded before `negatives`, not between the two.

    Args:
        policy: chooses the function.
        functions: prepared retrieval functions, by name.
        selector: picks from what a function offers.
        count: negatives per query.
        rng: every random draw comes from it.
        guarded: number of documents that the guard dropped from each function's lists, for the report.
        selectors: selectors that replace `selector` for single functions, by the function's name.
        counts: negatives per query that each function supplies, by name; they replace `count`. None if the policy
            decides, or there is one function.
        recorded: share of the queries whose negatives are recorded (`pyrite.sampling.shown.ShownNegatives`).

    Attributes:
        assigned: int64 [b, count], the index of the function that each of the last negatives comes from.
        source_scores: float32 [b, count], the functions' scores of the last negatives; nan if they have none.
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
        self.policy.selectors = self.policy.selectors_of(self.functions)
        if self.counts is not None:
            self.policy.set_counts([self.counts[name] for name in self.functions])
            self.count = sum(self.counts.values())
        self.stats = {name: FunctionStats() for name in self.functions}
        self.trace = Trace()
        self.shown = ShownNegatives(self.recorded)
        self.source_scores = np.zeros((0, 0), np.float32)
        self.assigned: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._last: tuple[Batch, RankerTraining] | None = None
        self._selections: list[Selection] = []
        self._ahead: Future[BatchDraw] | None = None
        self._given = 0  # negatives in this epoch so far
        self._started = False
        self._learned: dict[str, Any] = {}  # loaded state, restored after the parts' `start_run`

    def negatives(self, batch: Batch, training: RankerTraining) -> NDArray[np.int32]:
        """Return the negatives of a batch: document indices int32 [b, count], −1 if a query has fewer.

        A document that is judged relevant for its query is never returned, and no document twice for one query:
        selectors see functions without those (`pyrite.sampling.filtered.FilteredFunction`), and their picks are
        checked.

        Raises:
            BadInput: if the selector picked a document that it must not pick.
        """
        if not self._started:
            self.start(training)
        drawn = self._prepared(batch) or self.sources.draw(batch, training, self.policy, self.rng)
        self.assigned, self._selections, self.source_scores = drawn.assigned, drawn.selections, drawn.source_scores
        self._last = (batch, training)
        for index, (name, function) in enumerate(self.functions.items()):
            self.stats[name].count(drawn.stats[name])
            function.after_selection(batch, drawn.negatives, drawn.assigned == index)
        self._given += int(np.count_nonzero(drawn.negatives >= 0))
        return drawn.negatives

    @property
    def foresees(self) -> bool:
        """Whether negatives depend on batch and generator alone, so that they can be drawn before the ranker learns."""
        parts = [*self.functions.values(), *self.policy.selectors.values(), *(part for _, part in self._learners())]
        return all(vars(type(part)).get("independent", False) for part in parts)  # not inherited

    def prepare(self, batch: Batch, training: RankerTraining) -> None:
        """Start to draw the negatives of the next batch in a thread: the same that `negatives` would draw.

        Does nothing if the negatives depend on the ranker (`foresees`).
        """
        if self._started and self._ahead is None and self.foresees:
            self._ahead = AHEAD.submit(self.sources.draw, batch, training, self.policy, self.rng)

    def _prepared(self, batch: Batch) -> BatchDraw | None:
        """Return what was drawn ahead for this batch, or None; a draw for another batch is undone."""
        if self._ahead is None:
            return None
        drawn, self._ahead = self._ahead.result(), None
        if drawn.is_for(batch):
            return drawn
        self.rng.bit_generator.state = drawn.rng
        return None

    @property
    def sources(self) -> NegativeSources:
        """The functions and selectors that negatives are drawn from now. The sampler must have been started."""
        selectors = {name: self.selectors.get(name, self.selector) for name in self.functions}
        return NegativeSources(self.functions, selectors, self.count, self._relevant)

    def _learners(self) -> list[tuple[str, SamplingPolicy | Selector]]:
        """Return the parts that may learn, by the name of their state."""
        per_function = [(f"selector:{name}", selector) for name, selector in self.selectors.items()]
        return [("policy", self.policy), ("selector", self.selector), *per_function]

    def start(self, training: RankerTraining) -> None:
        """Start the parts of a run. The first `negatives` does it too."""
        self._relevant = RelevantPairs(training.encoded)
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
        """Record the ranker's scores of the last negatives, and let policy, selectors and functions learn from them.

        Raises:
            BadInput: at the end of an epoch in which no query had a negative.
        """
        self.trace.add(list(self.functions.values()), self.assigned, negatives, step.scores)
        for index, stats in enumerate(self.stats.values()):
            supplied = self.assigned == index
            if supplied.any():
                stats.positive.add(step.scores[supplied.any(1), 0])
                shown = supplied & (negatives >= 0)
                stats.negative.add(step.scores[:, 1:][shown])
                stats.misranked += int(np.count_nonzero((step.scores[:, 1:] >= step.scores[:, :1])[shown]))
        if self._last is not None:
            (batch, training), self._last = self._last, None
            self.shown.add(batch.queries, negatives, self.assigned, step.scores, self.source_scores)
            self.policy.observe(batch, negatives, step, training, self.rng)
            for selector, rows, columns, part, selected in self._selections:
                scores = np.concatenate([step.scores[rows, :1], step.scores[rows[:, None], 1 + columns]], 1)
                selector.observe(part, selected, replace(step, scores=scores), training, self.rng)
            for function in self.functions.values():
                function.after_update(training)
            if training.epoch_over:
                self._check_epoch(training)

    def _check_epoch(self, training: RankerTraining) -> None:
        """Raise if no query had a negative in an epoch: the loss would always be 0."""
        given, self._given = self._given, 0
        what = f"no query had a negative in the whole epoch ({type(self.selector).__name__} over "
        documents = len(training.encoded.documents)
        remedy = (
            "are there documents that are not relevant, with other texts, is `depth` large enough, the guard not too "
            "strict, and does the run have the training queries?"
            if documents > 1 else "the collection has one document, which is relevant: bring others"
        )  # fmt: skip
        refuse(not given and not training.diverged, f"{what}{', '.join(self.functions)})", "function", remedy)

    def report(self) -> list[dict[str, Any]]:
        """Return one row per function: what it supplied, what it took from other regions, how many negatives are
        missing, what the guard dropped, and the ranker's scores.

        The scores are those before the update that showed the negatives.
        """
        return [
            {
                "function": name,
                "batches": stats.batches,
                "negatives": stats.wanted - stats.missing,
                "missing": stats.missing,
                "fallback": stats.fallback,
                "guarded": self.guarded.get(name, 0) + self.functions[name].guarded,
                "misranked": stats.misranked,
                **stats.positive.row("positive"),
                **stats.negative.row("negative"),
            }
            for name, stats in self.stats.items()
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed run needs to draw the same negatives."""
        learned = self._learned
        if self._started:
            functions = {name: function.state_dict() for name, function in self.functions.items()}
            learned = {
                **{name: part.state_dict() for name, part in self._learners()},
                "functions": {name: state for name, state in functions.items() if state},
            }
        # A batch that was drawn ahead was not shown: it is drawn again from the same state of the generator.
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

        At the next `negatives` policy, selectors and functions start again with what they had learned.
        """
        if self._ahead is not None:
            self._ahead.result()
            self._ahead = None
        self.rng.bit_generator.state = state["rng"]
        for name, values in state["stats"].items():
            running = {key: RunningStats(**values[key]) for key in ("positive", "negative")}
            self.stats[name] = FunctionStats(**(values | running))
        self._given = state["given"]
        self.trace.load(state["trace"])
        self.shown.load(state["shown"])
        names = [*(name for name, _ in self._learners()), "functions"]
        self._learned = {name: state[name] for name in names if name in state}
        self._started = False
