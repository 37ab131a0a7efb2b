"""Tests of `sampling.policies.shares`: queries shared out among functions (negatives: test_mixture.py)."""

import numpy as np
import pytest

from ranking.batch import Batch, pairs_of
from ranking.errors import BadInput
from sampling.filtered import WindowedFunction
from sampling.policies.mixture import Mixture
from sampling.policies.shares import share_queries
from sampling.retrieval.bm25 import Bm25Function
from sampling.retrieval.in_batch import InBatch
from sampling.sampler import Sampler
from sampling.selection.uniform import Uniform


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


def test_something_must_be_left_to_the_first_function():
    with pytest.raises(BadInput, match="leaves none for the first"):
        share_queries(np.array([0.5, 0.5]), 4, 2, 2, np.random.default_rng(0))


def test_a_mixture_gives_some_queries_one_more_negative_within_a_window(tiny_sources, tiny_training):
    bm25, in_batch = Bm25Function(depth=6), InBatch()
    bm25.prepare(tiny_sources.encoded, bm25.rank(tiny_sources).without_relevant(tiny_sources.encoded.judgements))
    in_batch.prepare(tiny_sources.encoded, None)
    policy = Mixture([0.5, 0.5], each=1, window=[2, 3])
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
    whole = Bm25Function(depth=8)
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
