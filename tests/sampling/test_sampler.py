import math
from typing import Any

import numpy as np
import pytest

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.policies.schedule import Schedule
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.retrieval.memory import Memory
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.dynamic import Dynamic
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.uniform import Uniform
from pyrite.sampling.shown import ShownNegatives
from tests.sampling.batches import batch_of, listed, prepared
from tests.sampling.test_contracts import random_and_bm25, ready, training_of


class Hash:
    """A training whose scores are a hash of the documents, never the same for two."""

    def __init__(self, encoded: EncodedCollection) -> None:
        self.encoded, self.epoch_over, self.diverged = encoded, False, False

    def score(self, queries: Any, documents: np.ndarray) -> np.ndarray:
        return np.where(documents < 0, -np.inf, (documents * 7919) % 1009).astype(np.float32)

    def probabilities(self, queries: Any, documents: np.ndarray) -> np.ndarray:
        return np.where(documents < 0, 0, (documents * 7919) % 1009 / 1009).astype(np.float32)


@pytest.fixture
def hashed(encoded_of) -> Hash:
    """Without judgements."""
    return Hash(encoded_of([[1]] * 1000, [[1]] * 3, {}))


class Alternating(SamplingPolicy):
    """The functions in turn within the batch."""

    def choose(self, batch: Batch, training: Any, rng: np.random.Generator) -> np.ndarray:
        return np.arange(len(batch)) % len(self.functions)


class Assigning(Alternating):
    """Assigns what it was told."""

    def __init__(self, assigned: object, chosen: object = 0) -> None:
        self.assigned, self.chosen = assigned, chosen

    def choose(self, batch: Batch, training: Any, rng: np.random.Generator) -> Any:
        return self.chosen

    def assign(self, batch: Batch, count: int, training: Any, rng: np.random.Generator) -> Any:
        return super().assign(batch, count, training, rng) if self.assigned is None else self.assigned


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Assigning(None, 1), r"policy: Assigning chose functions of shape \(\) for 2 queries; return the index of"),
        (Assigning(None, [0, 2]), "policy: Assigning chose a function from 0 to 2; there are 0 to 1"),
        (Assigning(None, [0.0, 1.0]), r"policy: Assigning assigned float64 of shape \(2, 2\); return whole numbers"),
        (Assigning(np.array([[0], [1]])), r"policy: Assigning assigned int64 of shape \(2, 1\)"),
        (Assigning(np.array([[0, 1], [1, 0]])), "policy: Assigning assigned functions in mixed order; sort each row"),
        (Assigning(np.array([[0, 1], [-1, 0]])), "policy: Assigning assigned functions in mixed order; sort each row"),
    ],
)
def test_a_policy_that_assigns_something_else_is_named(policy, says, hashed):
    one = sampler(policy, a=listed([[1, 2, 3], [4]]), b=listed([[5], []]))
    with pytest.raises(BadInput, match=says):
        one.negatives(batch_of(0, 1), hashed)


def step(scores: list[list[float]]) -> UpdateResult:
    return UpdateResult(0.0, 0.0, np.array(scores, np.float32))


def sampler(policy: SamplingPolicy, count: int = 2, seed: int = 0, **functions: RetrievalFunction) -> Sampler:
    return Sampler(policy, functions, Top(), count, np.random.default_rng(seed), {"b": 5})


def test_the_report_by_hand(hashed):
    one = sampler(Alternating(), a=listed([[1, 2, 3], [4]]), b=listed([[5], []]))
    negatives = one.negatives(batch_of(0, 0, 1, 1), hashed)
    assert negatives.tolist() == [[1, 2], [5, -1], [4, -1], [-1, -1]]
    assert negatives.dtype == np.int32
    one.observe(negatives, step([[1, 2, 4], [7, 8, 99], [3, 6, 99], [9, 99, 99]]))
    negatives = one.negatives(batch_of(0), hashed)
    one.observe(negatives, step([[5, 0, 0]]))
    a, b = one.report()
    assert (a["function"], a["batches"], a["negatives"], a["missing"], a["guarded"]) == ("a", 2, 5, 1, 0)
    assert (b["function"], b["batches"], b["negatives"], b["missing"], b["guarded"]) == ("b", 1, 1, 3, 5)
    assert (a["misranked"], b["misranked"]) == (3, 1)  # 2 and 4 over 1, 6 over 3; 8 over 7
    assert [a[f"positive_{figure}"] for figure in ("mean", "min", "max")] == [3, 1, 5]
    assert a["positive_std"] == pytest.approx(np.std([1, 3, 5]))
    assert [a[f"negative_{figure}"] for figure in ("mean", "min", "max")] == [2.4, 0, 6]
    assert a["negative_std"] == pytest.approx(np.std([2, 4, 6, 0, 0]))
    assert [b[f"negative_{figure}"] for figure in ("mean", "std", "min", "max")] == [8, 0, 8, 8]
    trace = one.trace.arrays()  # of 1, 7, 3, 9 and 2, 4, 8, 6, and of 5 and 0, 0
    assert [trace[name].tolist() for name in ("function", "positive", "negative")] == [[-1, 0], [5, 5], [5, 0]]
    assert [trace[name].tolist() for name in ("misranked", "version", "age")] == [[1, 0], [-1, -1], [-1, -1]]


def test_negatives_of_several_functions_by_hand(hashed):
    """Shared out within a query: a function that falls short leaves its own places empty."""
    one = sampler(
        Mixture(weights=[1, 0, 3], per="negative"),
        4,
        a=listed([[1, 2], []]),
        b=listed([[9], [9]]),
        c=listed([[3, 4], [5]]),
    )
    negatives = one.negatives(batch_of(0, 1, 0), hashed)
    assert negatives.tolist() == [[1, 3, 4, -1], [-1, 5, -1, -1], [1, 3, 4, -1]]
    one.observe(negatives, step([[10, 1, 2, 3, 99], [20, 99, 4, 99, 99], [30, 5, 6, 7, 99]]))
    a, b, c = one.report()
    assert [(row["batches"], row["negatives"], row["missing"]) for row in (a, b, c)] == [
        (1, 2, 1),
        (0, 0, 0),
        (1, 5, 4),
    ]
    assert [row["fallback"] for row in (a, b, c)] == [0, 0, 0]
    assert (a["negative_mean"], c["negative_mean"]) == (3, 22 / 5)
    assert (a["positive_mean"], c["positive_mean"]) == (20, 20)
    figures = [f"{kind}_{figure}" for kind in ("positive", "negative") for figure in ("mean", "std", "min", "max")]
    assert all(math.isnan(b[figure]) for figure in figures)  # it was never chosen
    trace = one.trace.arrays()
    assert trace["function"].tolist() == [-1]
    assert trace["negative"].tolist() == [4]  # of 1 to 7
    assert trace["misranked"].tolist() == [0]


def test_a_selector_learns_of_its_own_part_of_the_batch(hashed):
    class Watching(Top):
        def __init__(self) -> None:
            self.seen: list[tuple[list[int], list[list[int]], list[list[float]]]] = []

        def observe(self, batch: Any, selected: Any, step: Any, *rest: Any) -> None:
            self.seen.append((batch.queries.tolist(), selected.documents.tolist(), step.scores.tolist()))

    functions = {"a": listed([[1, 2], [3, 4]]), "b": listed([[5], [6]])}
    watching = Watching()
    one = Sampler(Mixture(weights=[2, 1], per="negative"), functions, watching, 3, np.random.default_rng(0))
    negatives = one.negatives(batch_of(1, 0), hashed)
    assert negatives.tolist() == [[3, 4, 6], [1, 2, 5]]
    one.observe(negatives, step([[9, 1, 2, 3], [8, 4, 5, 6]]))
    assert watching.seen == [([1, 0], [[3, 4], [1, 2]], [[9, 1, 2], [8, 4, 5]]), ([1, 0], [[6], [5]], [[9, 3], [8, 6]])]


def test_each_of_several_functions_supplies_its_number_by_its_own_selector(hashed):
    rng = np.random.default_rng(0)
    a, b = listed([[1, 2, 3, 4], [4, 6, 7]]), listed([[2, 5, 1, 9], [8, 4]])
    one = Sampler(
        Fixed(), {"a": a, "b": b}, Top(), 4, rng, selectors={"b": Dynamic(lam=0, candidates=4)}, counts={"a": 1, "b": 2}
    )
    assert one.count == 3
    # Of b what scores highest by the hash that a has not given: 5 → 216, 9 → 633, 2 → 843; 8 → 790.
    assert one.negatives(batch_of(0, 1), hashed).tolist() == [[1, 2, 9], [4, 8, -1]]
    assert one.source_scores[0].tolist() == [0, 0, -3]
    with pytest.raises(BadInput, match="the policy decides itself"):
        Sampler(Mixture(), {"a": a, "b": b}, Top(), 4, rng, counts={"a": 1, "b": 2})
    with pytest.raises(BadInput, match="no numbers of negatives"):
        sampler(Fixed(), a=a, b=b).negatives(batch_of(0), hashed)


def test_hard_in_batch_negatives_are_what_another_function_mined_for_other_queries(encoded_of):
    encoded = encoded_of([[d + 1] for d in range(9)], [[1]] * 2, {0: {0: 1}, 1: {1: 1}})
    functions = {"in_batch": prepared(InBatch(hard=True), encoded), "bm25": listed([[4, 5], [6, 7]])}
    one = Sampler(Fixed(), functions, Top(), 1, np.random.default_rng(0), counts={"in_batch": 3, "bm25": 2})
    batch = Batch(np.array([0, 1]), np.array([0, 1], np.int32))
    negatives = one.negatives(batch, Hash(encoded))
    assert [sorted(row) for row in negatives[:, :3].tolist()] == [[1, 6, 7], [0, 4, 5]]
    assert negatives[:, 3:].tolist() == [[4, 5], [6, 7]]
    one.observe(negatives, step([[9, 1, 2, 3, 4, 5]] * 2))
    assert [row["negatives"] for row in one.report()] == [6, 4]


def add(shown: ShownNegatives, queries: list[int], negatives: list[list[int]], scores: list[list[float]]) -> None:
    chosen = np.array(negatives, np.int32)
    own = np.arange(chosen.size, dtype=np.float32).reshape(chosen.shape)
    shown.add(np.array(queries), chosen, np.zeros(chosen.shape, np.int64), np.array(scores, np.float32), own)


def test_it_counts_what_was_shown_and_how_close_it_came():
    shown = ShownNegatives(1.0)
    add(shown, [4, 2], [[7, -1], [7, 9]], [[1.0, 3.0, 0.0], [2.0, 1.0, 2.5]])
    add(shown, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    table = shown.arrays()
    assert table["query"].tolist() == [2, 2, 4, 4]
    assert table["document"].tolist() == [7, 9, 7, 8]
    assert table["times"].tolist() == [1, 1, 2, 1]
    assert table["margin"].tolist() == [-1.0, 0.5, 1.0, -0.5]  # of 7: 3 - 1 and 0 - 1
    assert table["score"].tolist() == [2.0, 3.0, 0.0, 1.0]  # the last one's


def test_it_goes_on_from_its_arrays():
    through, before = ShownNegatives(1.0), ShownNegatives(1.0)
    for each in (through, before):
        add(each, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    after = ShownNegatives(1.0)
    after.load(before.arrays())
    for each in (through, after):
        add(each, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    np.testing.assert_equal(through.arrays(), after.arrays())


def test_a_share_of_the_queries_is_counted():
    queries = np.arange(20_000)
    assert not ShownNegatives(0.0).counts(queries).any()
    assert ShownNegatives(1.0).counts(queries).all()
    some = ShownNegatives(0.1).counts(queries)
    assert 0.09 < some.mean() < 0.11
    assert ShownNegatives(0.2).counts(queries)[some].all()  # a larger share keeps the smaller
    nothing = ShownNegatives(0.0)
    add(nothing, [4], [[7, 8]], [[1.0, 0.0, 0.5]])
    assert not len(nothing.arrays()["query"])


def test_examples_are_recorded_besides_the_share():
    shown = ShownNegatives()
    shown.add_examples(np.array([9, 5, 5, 7, 1, 3, 2]))
    assert shown.examples.tolist() == [2, 5, 9]  # the middles of three thirds of 1, 2, 3, 5, 7, 9
    add(shown, [4, 5], [[7, 8], [7, 9]], [[1.0, 0.0, 0.5], [1.0, 2.0, 0.5]])
    assert shown.arrays()["query"].tolist() == [5, 5]
    shown.add_examples(np.zeros(0, np.int64))
    assert not len(shown.examples)


def source(sources: Sources, **parts: Any) -> Sampler:
    given = {"policy": Mixture(per="query"), "functions": random_and_bm25(sources), "selector": Uniform()} | parts
    return Sampler(**given, count=3, rng=np.random.default_rng(1))


def steps(sampler: Sampler, training: RankerTraining, count: int, ahead: bool) -> list[Any]:
    """What is shown, and the state behind each step."""
    seen: list[Any] = []
    for _ in range(count):
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        following = training.following_batch()
        if ahead and following is not None:
            sampler.prepare(following, training)
        sampler.observe(negatives, training.update(batch, negatives, sampler.source_scores))
        state = sampler.state_dict()
        seen.append((negatives.tolist(), state["rng"], state["stats"], state["given"]))
        if training.epoch_over:
            training.validate()
    return seen


def test_drawing_ahead_changes_neither_negatives_nor_states(tiny_sources):
    plain, ahead = source(tiny_sources), source(tiny_sources)
    assert ahead.foresees
    one, other = training_of(tiny_sources), training_of(tiny_sources)
    assert steps(plain, one, 7, ahead=False) == steps(ahead, other, 7, ahead=True)
    assert plain.report() == ahead.report()
    assert ahead._ahead is not None or other.following_batch() is None


def test_a_state_goes_on_before_what_was_drawn_ahead(tiny_sources):
    whole = steps(source(tiny_sources), training_of(tiny_sources), 6, ahead=False)
    sampler, training = source(tiny_sources), training_of(tiny_sources)
    steps(sampler, training, 4, ahead=True)  # the first batch of the second epoch; the next one's are under way
    assert sampler._ahead is not None
    kept = to_bytes({"sampler": sampler.state_dict(), "training": training.state_dict()})
    for again in (source(tiny_sources), sampler):
        state, fresh = from_bytes(kept), training_of(tiny_sources)
        again.load_state_dict(state["sampler"])
        fresh.load_state_dict(state["training"])
        assert steps(again, fresh, 2, ahead=True) == whole[4:]


def test_another_batch_than_was_expected_draws_what_it_would_have(tiny_sources):
    plain, ahead = source(tiny_sources), source(tiny_sources)
    training = training_of(tiny_sources)
    first, following = training.next_batch(), training.following_batch()
    for sampler in (plain, ahead):
        sampler.negatives(first, training)
    ahead.prepare(following, training)
    assert ahead.negatives(first, training).tolist() == plain.negatives(first, training).tolist()


def test_fit_draws_ahead_and_gives_the_same_weights(tiny_sources, monkeypatch):
    asked = []
    one, other = training_of(tiny_sources), training_of(tiny_sources)
    prepare = Sampler.prepare
    monkeypatch.setattr(Sampler, "prepare", lambda *given: (asked.append(1), prepare(*given)))
    one.fit(source(tiny_sources))
    assert asked
    monkeypatch.setattr(Sampler, "prepare", lambda *given: None)
    other.fit(source(tiny_sources))
    assert one.losses == other.losses


def test_what_follows_the_ranker_is_not_drawn_ahead(tiny_sources):
    class Mine(Uniform):
        """A selector of one's own, which may look at the ranker."""

    in_batch, memory = ready(InBatch(), tiny_sources), ready(Memory(), tiny_sources)
    assert source(tiny_sources, policy=Fixed(), functions={"in_batch": in_batch}).foresees
    for parts in (
        {"selector": Dynamic()},
        {"selector": Mine()},
        {"policy": Fixed(), "functions": {"memory": memory}},
        {"policy": Schedule()},
    ):
        sampler, training = source(tiny_sources, **parts), training_of(tiny_sources)
        assert not sampler.foresees
        sampler.negatives(training.next_batch(), training)
        sampler.prepare(training.next_batch(), training)
        assert sampler._ahead is None
