"""A mixture shares out the negatives of each query, as in `policy=refined`, or the queries (`policies.shares`)."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pyrite.cluster.config.groups import option
from pyrite.ranking.batch import Batch, pairs_of
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.training import RankerTraining, UpdateResult
from pyrite.sampling.filtered import WindowedFunction
from pyrite.sampling.policies.mixture import Mixture, Refined
from pyrite.sampling.policies.shares import share_queries
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.category import OtherCategory, SameCategory, SameSubcategory
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.uniform import Uniform
from tests.sampling.batches import batch_of, prepared
from tests.sampling.test_contracts import ready

NAMES = ["subcategory", "category", "outside"]
WEIGHTS = [0.2, 0.3, 0.5]
NOTHING: Any = None


def assigned(count: int, size: int, weights: list[float] | None = None, seed: int = 0) -> np.ndarray:
    policy = Mixture(weights=WEIGHTS if weights is None else weights, per="negative")
    policy.set_functions([f"f{place}" for place in range(len(weights or WEIGHTS))])
    return policy.assign(batch_of(np.arange(size)), count, NOTHING, np.random.default_rng(seed))


def shares(drawn: np.ndarray, functions: int = 3) -> np.ndarray:
    """How many of each function a query has [queries, functions]."""
    return np.stack([(drawn == place).sum(1) for place in range(functions)], 1)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9, 10, 11, 33, 100])
def test_proportions_are_exact_if_whole_and_otherwise_the_number_below_or_above(count):
    drawn = assigned(count, 20_000)
    assert (drawn.shape, drawn.dtype) == ((20_000, count), np.int64)
    assert (np.diff(drawn, axis=1) >= 0).all()  # a function's stand together
    counts = shares(drawn)
    assert (counts.sum(1) == count).all()
    for of_function, weight in zip(counts.T, WEIGHTS, strict=True):
        low = math.floor(count * weight + 1e-9)
        assert set(np.unique(of_function).tolist()) <= {low, low + 1}
        above = count * weight - low
        frequencies = np.array([(of_function == low).sum(), (of_function == low + 1).sum()])
        if above < 1e-9:
            assert frequencies.tolist() == [20_000, 0]
        else:
            assert chisquare(frequencies, np.array([1 - above, above]) * 20_000).pvalue > 0.001


@pytest.mark.parametrize("count", [1, 3, 7])
def test_queries_are_shared_out_each_by_itself(count):
    """What one query gets says nothing about the next."""
    first = shares(assigned(count, 40_000))[:, 2] > count * 0.5
    pairs = np.bincount(2 * first[::2] + first[1::2], minlength=4)
    share = first.mean()
    expected = np.array([(1 - share) ** 2, (1 - share) * share, share * (1 - share), share**2])
    assert chisquare(pairs, expected * pairs.sum()).pvalue > 0.01


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0, 2.0, 3.0, 0.333]), min_size=2, max_size=6).filter(any),
    st.integers(0, 40),
    st.integers(0, 99),
)
def test_any_weights(weights, count, seed):
    counts = shares(assigned(count, 7, weights, seed), len(weights))
    assert (counts.sum(1) == count).all()
    for of_function, weight in zip(counts.T, weights, strict=True):
        wanted = count * weight / sum(weights)
        assert (of_function >= math.floor(wanted - 1e-6)).all()
        assert (of_function <= math.ceil(wanted + 1e-6)).all()
        if not weight:
            assert not of_function.any()


@pytest.mark.parametrize("per", ["negative", "query"])
@pytest.mark.parametrize(("first", "count"), [(0.0, 1), (0.0, 10), (float(np.nextafter(1, 0)), 1)])
def test_draws_at_the_edges(per, first, count):
    class Edge:
        def random(self, size: int | tuple[int, int]) -> np.ndarray:
            return np.full(size, first)

    for weights, expected in ([0, 1, 0], [0, count, 0]), ([0, 0, 3], [0, 0, count]), ([1, 0, 0], [count, 0, 0]):
        policy = Mixture(weights=weights, per=per)
        policy.set_functions(NAMES)
        assert shares(policy.assign(batch_of(0, 1), count, NOTHING, Edge())).tolist() == [expected] * 2


@pytest.mark.parametrize("per", ["batch", "query"])
def test_other_units_give_a_query_one_function(per):
    policy = Mixture(weights=WEIGHTS, per=per)
    policy.set_functions(NAMES)
    batch = batch_of(np.arange(300))
    drawn = policy.assign(batch, 4, NOTHING, np.random.default_rng(0))
    again = policy.choose(batch, NOTHING, np.random.default_rng(0))
    assert drawn.shape == (300, 4)
    assert drawn.tolist() == [[chosen] * 4 for chosen in again.tolist()]


def test_the_configuration_is_the_papers():
    """20% from the subcategory, 30% from the entire category, 50% from elsewhere."""
    folder = Path(__file__).parents[3] / "cluster" / "conf"
    policy = yaml.safe_load((folder / "policy" / "refined.yaml").read_text())
    assert policy["defaults"] == [{"override /function@_global_.function": NAMES}]
    named = option("policy", "refined")
    assert (named["weights"], named["per"]) == (WEIGHTS, "negative")
    assert (list(Refined().weights), Refined().per) == (WEIGHTS, "negative")
    for name, kind in zip(NAMES, (SameSubcategory, SameCategory, OtherCategory), strict=True):
        assert option("function", name)[name]["_target_"] == f"{kind.__module__}.{kind.__name__}"


def refined(encoded: EncodedCollection, count: int) -> Sampler:
    kinds = (SameSubcategory(), SameCategory(whole=False), OtherCategory())
    functions = {name: prepared(kind, encoded) for name, kind in zip(NAMES, kinds, strict=True)}
    return Sampler(Mixture(weights=WEIGHTS, per="negative"), functions, Uniform(), count, np.random.default_rng(0))


# Of `tiny`: the regions of q1 (mammals) and of q7 (metals), without what is relevant to them.
SUBCATEGORY = {0: {1}, 6: {6}}
CATEGORY = {0: {2, 3}, 6: {4}}
OUTSIDE = {0: {4, 5, 6, 7, 8, 9, 10, 11}, 6: {0, 1, 2, 3, 8, 9, 10, 11}}


def without_repeats(training: RankerTraining) -> RankerTraining:
    """As if no two texts of `tiny` were alike."""
    training.encoded = replace(training.encoded, content=None)
    return training


def counted(row: dict[str, Any]) -> tuple[int, ...]:
    return row["negatives"], row["missing"], row["fallback"]


def test_a_querys_negatives_come_from_the_three_regions(tiny_encoded, tiny_training):
    one = refined(tiny_encoded, 10)
    batch = Batch(np.array([0, 6]), np.array([0, 7], np.int32))
    negatives = one.negatives(batch, without_repeats(tiny_training()))
    for query, row in zip((0, 6), negatives.tolist(), strict=True):
        first, second, third = row[:2], row[2:5], row[5:]
        assert SUBCATEGORY[query] <= set(first)  # two of one: the other is of the category
        assert set(first) <= SUBCATEGORY[query] | CATEGORY[query]
        assert CATEGORY[query] <= {*first, *second}  # what is left of two or one; then from elsewhere
        assert set(second) <= CATEGORY[query] | OUTSIDE[query]
        assert set(third) <= OUTSIDE[query]
        assert len({*row}) == 10
    step = UpdateResult(0.0, 0.0, np.arange(22, dtype=np.float32).reshape(2, 11))
    one.observe(negatives, step)
    assert [(row["batches"], *counted(row)) for row in one.report()] == [(1, 4, 0, 2), (1, 6, 0, 2 + 3), (1, 10, 0, 0)]
    # The scores of a function's own negatives: columns 1 and 2, 3 to 5, 6 to 10 of both rows.
    means = [np.mean([1, 2, 12, 13]), np.mean([3, 4, 5, 14, 15, 16]), np.mean([*range(6, 11), *range(17, 22)])]
    assert [row["negative_mean"] for row in one.report()] == pytest.approx(means)
    assert [row["positive_mean"] for row in one.report()] == pytest.approx([5.5] * 3)
    assert one.trace.arrays()["function"].tolist() == [-1]


def test_what_the_collection_cannot_fill_is_missing(tiny_encoded, tiny_training):
    one = refined(tiny_encoded, 40)
    negatives = one.negatives(Batch(np.array([0]), np.array([0], np.int32)), without_repeats(tiny_training()))
    assert sorted(negatives[0][negatives[0] >= 0].tolist()) == list(range(1, 12))  # each once, but for the relevant 0
    assert [counted(row) for row in one.report()] == [(8, 0, 7), (3, 9, 3), (0, 20, 0)]


def test_a_share_of_the_queries_gets_some_of_each_other_function():
    assigned = share_queries(np.array([0.0, 0.25, 1.0]), 40, 10, 2, np.random.default_rng(0))
    assert ((assigned == 0).sum(1) == 6).all()  # what is left to the first: 10 − 2 · 2
    assert sorted(np.unique((assigned == 1).sum(1), return_counts=True)[1]) == [10, 30]
    assert ((assigned == 2).sum(1) == 2).all()
    there = assigned >= 0
    assert (there[:, 1:] <= there[:, :-1]).all()  # −1 stands behind the others
    assert all((np.diff(row[row >= 0]) >= 0).all() for row in assigned)
    again = share_queries(np.array([0.0, 0.25, 1.0]), 40, 10, 2, np.random.default_rng(0))
    assert np.array_equal(assigned, again)
    with pytest.raises(BadInput, match="leaves none for the first"):
        share_queries(np.array([0.5, 0.5]), 4, 2, 2, np.random.default_rng(0))


def test_a_mixture_gives_some_queries_one_more_negative_within_a_window(tiny_sources, tiny_training):
    bm25, in_batch = ready(BM25(depth=6), tiny_sources), ready(InBatch(), tiny_sources)
    policy = Mixture(weights=[0.5, 0.5], each=1, window=[2, 3])
    sampler = Sampler(policy, {"in_batch": in_batch, "bm25": bm25}, Uniform(), 3, np.random.default_rng(0))
    training, batch = tiny_training(), pairs_of(tiny_sources.encoded, np.arange(4)).take(np.array([0, 1, 2, 4]))
    negatives = sampler.negatives(batch, training)
    last = bm25.lists.documents[batch.queries, 1:3]
    rows, columns = np.nonzero(sampler.assigned == 1)
    assert len(rows) == 2  # half of the queries
    for row, column in zip(rows, columns, strict=True):
        assert negatives[row, column] in [*last[row], -1]
    assert (negatives[sampler.assigned < 0] == -1).all()
    update = training.update(batch, negatives)
    sampler.observe(negatives, update)
    assert sampler.report()[1]["negatives"] == (negatives[rows, columns] >= 0).sum()


def test_a_window_shows_its_ranks_alone(tiny_sources):
    whole = BM25(depth=8)
    whole.prepare(tiny_sources.encoded, whole.rank(tiny_sources))
    batch, rng = Batch(np.arange(4), np.zeros(4, np.int32)), np.random.default_rng(0)
    head = whole.top(batch, 8, rng).documents
    windowed = WindowedFunction(whole, 2, 4)
    assert np.array_equal(windowed.top(batch, 2, rng).documents, head[:, 1:3])
    assert np.array_equal(windowed.top(batch, 9, rng).documents, head[:, 1:4])
    drawn = np.stack([windowed.sample(batch, 2, rng).documents for _ in range(50)])
    for row, documents in enumerate(head[:, 1:4]):
        seen = set(drawn[:, row].ravel()) - {-1}
        assert seen == set(documents) - {-1}
    there = drawn[drawn[..., 1] >= 0]
    assert (there[:, 0] != there[:, 1]).all()
    with pytest.raises(BadInput, match="window"):
        WindowedFunction(whole, 4, 2)
