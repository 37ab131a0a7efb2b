from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranking.texts import Texts
from sampling.retrieval.random import RandomFunction
from tests.examples import few
from tests.sampling.batches import batch_of, prepared


def test_uniform_over_everything_that_is_not_relevant(encoded_of):
    grades = {0: {0: 1, 1: 2, 4: 1, 6: 0, 9: 1}, 1: {}, 2: {5: 3}}
    function = prepared(RandomFunction(), encoded_of([[1]] * 10, [[1]] * 3, grades))
    for query, allowed in ((0, [2, 3, 5, 6, 7, 8]), (1, list(range(10))), (2, [0, 1, 2, 3, 4, 6, 7, 8, 9])):
        candidates = function.sample(batch_of(np.full(20_000, query)), 3, np.random.default_rng(query))
        documents, frequencies = np.unique(candidates.documents, return_counts=True)
        assert documents.tolist() == allowed
        sets = np.unique((1 << candidates.documents.astype(np.int64)).sum(axis=1), return_counts=True)[1]
        assert chisquare(sets).pvalue > 0.01
        assert frequencies.sum() == 60_000
        assert np.isnan(candidates.scores).all()


@few(30)
@given(st.integers(1, 8), st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=4), st.integers(0, 9), st.data())
def test_never_relevant_never_twice_and_as_many_as_there_are(encoded_of, size, relevant, count, data):
    relevant = [{document for document in row if document < size} for row in relevant]
    grades = {query: dict.fromkeys(row, 1) for query, row in enumerate(relevant)}
    function = prepared(RandomFunction(), encoded_of([[1]] * size, [[1]] * len(relevant), grades))
    queries = np.array(data.draw(st.lists(st.integers(0, len(relevant) - 1), max_size=5)), np.int64)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for candidates in (function.sample(batch_of(queries), count, rng), function.top(batch_of(queries), count, rng)):
        assert candidates.documents.shape == candidates.scores.shape == (len(queries), count)
        assert (candidates.documents.dtype, candidates.scores.dtype) == (np.int32, np.float32)
        for query, row in zip(queries, candidates.documents.tolist(), strict=True):
            there = [document for document in row if document >= 0]
            assert len(set(there)) == len(there) == min(count, size - len(relevant[query]))
            assert set(there) <= set(range(size)) - relevant[query]
            assert row[: len(there)] == there


def test_millions_of_documents(encoded_of):
    size = 2**31 - 1
    last = encoded_of([[1]] * 3, [[1]], {0: {0: 1, size - 1: 1}})

    class Many(Texts):
        def __len__(self) -> int:
            return size

    many = replace(last, documents=Many(last.documents.tokens, last.documents.offsets))
    candidates = prepared(RandomFunction(), many).sample(
        batch_of(np.zeros(2000, np.int64)), 2, np.random.default_rng(0)
    )
    assert candidates.documents.min() > 0
    assert size * 0.99 < candidates.documents.max() < size - 1
