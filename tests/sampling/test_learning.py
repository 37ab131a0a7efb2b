"""Policies and selectors that learn while a ranker does, and rankers that are trained in turn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.objectives.self_involvement import JointSIR, SequentialSIR
from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
from pyrite.sampling.filtered import FilteredFunction
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.uniform import Uniform
from pyrite.sampling.staged_training import CompressedLists, StagedTraining, compress_lists
from tests.ranking.trained import equal, weights
from tests.sampling.batches import batch_of, listed, prepared, steps


def sampler(training: RankerTraining, policy: SamplingPolicy, selector: Selector) -> Sampler:
    lists = [[10, 11, 3, 4, 6][: 5 - query % 3] for query in range(8)]
    bm25 = listed(lists, encoded=training.encoded)
    functions = {"random": prepared(Random(), training.encoded), "bm25": bm25}
    return Sampler(policy, functions, selector, 2, np.random.default_rng(0))


class Noting:
    """Writes down what a sampler asks of it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.calls.append(("start_run", list(functions), training.step))

    def state_dict(self) -> dict[str, Any]:
        return {"calls": len(self.calls)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.calls.append(("load", state))


class NotingPolicy(Noting, SamplingPolicy):
    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> np.ndarray:
        self.calls.append("choose")
        return np.arange(len(batch)) % 2

    def observe(self, batch: Batch, negatives: Any, step: UpdateResult, training: RankerTraining, rng: Any) -> None:
        self.calls.append(("observe", batch.queries.tolist(), negatives.tolist(), step.loss, training.step))


class NotingSelector(Noting, Selector):
    def select(
        self, batch: Batch, function: RetrievalFunction, count: int, training: RankerTraining, rng: np.random.Generator
    ) -> CandidateBatch:
        self.offers = [*getattr(self, "offers", []), function.top(batch, 1, rng)]
        self.calls.append(("select", batch.queries.tolist()))
        return self.offers[-1]

    def observe(
        self, batch: Batch, selected: CandidateBatch, step: UpdateResult, training: RankerTraining, rng: Any
    ) -> None:
        place = next(place for place, mine in enumerate(self.offers) if mine is selected)
        self.calls.append(("observe", place, batch.queries.tolist(), step.scores.tolist(), training.step))


def test_policy_and_selector_begin_once_and_hear_of_each_update(tiny_training):
    training, policy, selector = tiny_training(), NotingPolicy(), NotingSelector()
    source = sampler(training, policy, selector)
    batch = training.next_batch()
    one, other = batch.queries.tolist()
    negatives = source.negatives(batch, training)
    step = training.update(batch, negatives)
    source.observe(negatives, step)
    source.observe(negatives, step)  # what was learned from already is not learned from again
    assert policy.calls == [
        ("start_run", ["random", "bm25"], 0),
        "choose",
        ("observe", [one, other], negatives.tolist(), step.loss, 1),
    ]
    scores = step.scores.tolist()
    assert selector.calls == [
        ("start_run", ["random", "bm25"], 0),
        ("select", [one]),
        ("select", [other]),
        ("observe", 0, [one], [scores[0]], 1),
        ("observe", 1, [other], [scores[1]], 1),
    ]
    source.negatives(training.next_batch(), training)
    assert [call[0] for call in policy.calls].count("start_run") == 1


def test_a_loaded_state_is_put_back_behind_begin(tiny_training):
    training, policy, selector = tiny_training(), NotingPolicy(), NotingSelector()
    source = sampler(training, policy, selector)
    steps(source, training, 1)
    state = source.state_dict()
    assert (state["policy"], state["selector"]) == ({"calls": 3}, {"calls": 5})
    source.load_state_dict(state)
    source.negatives(training.next_batch(), training)
    assert policy.calls[3:] == [("start_run", ["random", "bm25"], 1), ("load", {"calls": 3}), "choose"]
    assert selector.calls[5:7] == [("start_run", ["random", "bm25"], 1), ("load", {"calls": 5})]


Assemble = Callable[[], tuple[RankerTraining, Sampler]]


@pytest.fixture
def assemble(tiny_training) -> Callable[..., Assemble]:
    """Makes what a run's `assemble` is: six negatives a query of lists with seven, or five for the last query."""

    def of(objective: Any, max_epochs: int = 2) -> Assemble:
        def make() -> tuple[RankerTraining, Sampler]:
            training = tiny_training()
            training.objective, training.max_epochs = objective, max_epochs
            lists = [[10, 11, 3, 4, 6, 7, 2]] * 3 + [[3, 4, 6, 7, 2]] + [[10, 11, 3, 4, 6, 7, 2]] * 4
            function = listed(lists, encoded=training.encoded)
            return training, Sampler(Fixed(), {"bm25": function}, Uniform(), 6, np.random.default_rng(0))

        return make

    return of


def test_lists_keep_what_the_ranker_scores_highest_and_a_pick_at_random_all_to_draw_from(assemble, monkeypatch):
    monkeypatch.setattr("pyrite.sampling.staged_training.CHUNK", 3)
    training, sampler = assemble(SequentialSIR([4, 3]))()
    function, queries = sampler.functions["bm25"], np.arange(4)
    offered = FilteredFunction(function, RelevantPairs(training.encoded))
    head = offered.top(batch_of(queries), 6, np.random.default_rng(0)).documents
    best, every = (compress_lists(function, training, queries, 6, kept, np.random.default_rng(0)) for kept in (3, None))
    for query, shown in enumerate(head):
        shown = shown[shown >= 0]
        scores = training.score(np.array([query]), shown[None])[0]
        assert best.lists.documents[query].tolist() == shown[np.argsort(-scores, kind="stable")][:3].tolist()
        assert best.lists.scores[query].tolist() == pytest.approx(sorted(scores, reverse=True)[:3], rel=1e-5)
    assert (best.lists.documents[4:] == -1).all()  # nobody asked
    assert every.lists.documents[:4].tolist() == head.tolist()
    assert every.lists.counts.tolist() == [6, 6, 6, 4, 0, 0, 0, 0]


@pytest.mark.parametrize("flows", [False, True])
def test_levels_start_from_the_checkpoint_or_from_the_weights_before(flows, assemble):
    starts, ends = [], []

    class Watched(StagedTraining):
        def _start_stage(self, lists: Any) -> None:
            ends.append(weights(self.training.ranker))
            super()._start_stage(lists)

    staged = Watched(assemble(SequentialSIR([4, 3], flows=flows)))
    for training in staged.trainings():
        starts.append(weights(staged.training.ranker))
        training.fit(staged.sampler)
    assert len(starts) == 3
    assert len(ends) == 2
    for start, end in zip(starts[1:], ends, strict=True):
        assert equal(start, end if flows else starts[0])
        assert not equal(end, starts[0])


def test_later_stages_are_trained_on_compressed_lists(assemble):
    staged = StagedTraining(assemble(SequentialSIR([4, 3])))
    fit(staged)
    rows = staged.report()
    assert [(row["stage"], row["function"]) for row in rows] == [(0, "bm25"), (1, "bm25"), (2, "bm25")]
    # Five examples in each of two epochs; 6, 3 and 2 negatives each; one query has four of its six.
    assert [row["negatives"] for row in rows] == [60 - rows[0]["missing"], 30, 20]
    assert isinstance(staged.sampler.functions["bm25"], CompressedLists)
    assert (staged.steps + staged.training.step, staged.epochs) == (18, 4)


@pytest.mark.parametrize(("flows", "before"), [(False, 0), (True, 12)])
def test_a_stage_whose_work_nobody_takes_is_left_out(assemble, flows, before):
    """At random nobody asks the ranker before, and where weights do not flow nobody takes them."""
    staged = StagedTraining(assemble(SequentialSIR([4, 3], pick="random", flows=flows)))
    fit(staged)
    assert (staged.steps, staged.training.step) == (before, 6)


def test_one_stage_is_a_plain_training(assemble):
    staged = StagedTraining(assemble(JointSIR([4, 3])))
    fit(staged)
    training, sampler = assemble(JointSIR([4, 3]))()
    training.fit(sampler)
    assert equal(weights(training.ranker), weights(staged.training.ranker))


def fit(staged: StagedTraining, on_validation: Callable[[RankerTraining], None] = lambda training: None) -> None:
    for training in staged.trainings():
        training.fit(staged.sampler, on_validation)


class Stopped(Exception):
    pass


@pytest.mark.by_day(2)
@pytest.mark.parametrize("at", range(1, 6))
def test_interrupted_it_goes_on_at_the_level_where_it_was(at, assemble):
    make = assemble(SequentialSIR([4, 3], pick=["top", "random"], flows=True))
    whole = StagedTraining(make)
    fit(whole)
    first = StagedTraining(make)
    kept: list[bytes] = []

    def stop(training: RankerTraining) -> None:
        kept.append(to_bytes(first.state_dict()))
        if len(kept) == at:
            raise Stopped

    with pytest.raises(Stopped):
        fit(first, stop)
    other = StagedTraining(make)
    other.load_state_dict(from_bytes(kept[-1]))
    assert other.stage == (at - 1) // 2
    fit(other)
    assert other.report() == whole.report()
    assert (other.steps, other.epochs) == (whole.steps, whole.epochs)
    assert equal(weights(whole.training.ranker), weights(other.training.ranker))


def test_the_head_that_competes_is_the_functions_own(assemble):
    training, sampler = assemble(SequentialSIR([4, 3]))()
    sampler.selector = Top()
    compressed = compress_lists(sampler.functions["bm25"], training, np.arange(4), 2, 5, np.random.default_rng(0))
    assert compressed.lists.documents.shape[1] == 2  # no more than competed
    # The last two documents are alike: one of them competes.
    assert [sorted(row) for row in compressed.lists.documents[:3].tolist()] == [[3, 10]] * 3
