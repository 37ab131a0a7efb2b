"""Policies and selectors that learn while a ranker does, in a sampler and a real training."""

from typing import Any

import numpy as np

from ranking.training import Batch, RankerTraining, UpdateResult
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.retrieval.random import RandomFunction
from sampling.sampler import Sampler
from sampling.selection.selector import Selector
from tests.sampling.batches import listed, prepared, steps


def sampler(training: RankerTraining, policy: SamplingPolicy, selector: Selector) -> Sampler:
    lists = [[10, 11, 3, 4, 6][: 5 - query % 3] for query in range(8)]
    bm25 = listed(lists, encoded=training.encoded)
    functions = {"random": prepared(RandomFunction(), training.encoded), "bm25": bm25}
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
