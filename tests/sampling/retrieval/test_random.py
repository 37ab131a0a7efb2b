from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pyrite.ranking.contents import content_ids
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import Batch
from pyrite.sampling.filtered import FilteredFunction
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.retrieval.random import Random
from tests.examples import few
from tests.sampling.batches import batch_of, prepared


def test_uniform_over_everything_that_is_not_relevant(encoded_of):
    grades = {0: {0: 1, 1: 2, 4: 1, 6: 0, 9: 1}, 1: {}, 2: {5: 3}}
    function = prepared(Random(), encoded_of([[1]] * 10, [[1]] * 3, grades))
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
    function = prepared(Random(), encoded_of([[1]] * size, [[1]] * len(relevant), grades))
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
    function = prepared(Random(), many)
    candidates = function.sample(batch_of(np.zeros(2000, np.int64)), 2, np.random.default_rng(0))
    assert candidates.documents.min() > 0
    assert size * 0.99 < candidates.documents.max() < size - 1


def batch(*positives: int) -> Batch:
    return Batch(np.arange(len(positives)), np.array(positives, np.int32))


def with_contents(encoded: EncodedCollection, texts: list[list[int]]) -> EncodedCollection:
    keys = [sum(token * 10**place for place, token in enumerate(text)) for text in texts]
    return replace(encoded, content=content_ids(np.array(keys, np.uint64)))


def test_positives_of_others_by_hand(encoded_of):
    """Documents 1 and 4 read the same; the second query judges document 3 relevant too."""
    texts = [[5], [6], [7], [8], [6]]
    encoded = with_contents(encoded_of(texts, [[1]] * 4, {0: {1: 1}, 1: {2: 1, 3: 1}, 2: {3: 1}, 3: {4: 1}}), texts)
    whole = batch(1, 2, 3, 4)
    offered = FilteredFunction(prepared(InBatch(), encoded), RelevantPairs(encoded))
    found = offered.sample(whole, 4, np.random.default_rng(0))
    shown = [sorted(1 if d == 4 else d for d in row if d >= 0) for row in found.documents.tolist()]
    assert shown == [[2, 3], [1], [1, 2], [2, 3]]  # the text of 1 and 4 once
    assert found.documents.dtype == np.int32
    assert found.documents.shape == found.scores.shape


def test_a_part_of_a_batch_is_shown_the_positives_of_all(encoded_of):
    encoded = encoded_of([[d] for d in range(6)], [[1]] * 4, {q: {q: 1} for q in range(4)})
    part, function = batch(0, 1, 2, 3).part(np.array([2])), prepared(InBatch(), encoded)
    drawn = np.array([function.sample(part, 2, np.random.default_rng(s)).documents[0] for s in range(6000)])
    sets, counts = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)
    assert sets.tolist() == [[0, 1], [0, 3], [1, 3]]
    assert chisquare(counts).pvalue > 0.001


def test_a_query_alone_has_none(encoded_of):
    encoded = encoded_of([[1], [2]], [[1]], {0: {0: 1}})
    documents = prepared(InBatch(), encoded).top(batch(0), 3, np.random.default_rng(0)).documents
    assert (documents == -1).all()


def test_hard_ones_are_what_was_mined_for_others(encoded_of):
    """Documents 0 to 3 are the positives; 4 reads as 1, 5 is judged relevant for query 0, 7 reads as that one."""
    texts = [[1], [2], [3], [4], [2], [6], [7], [6], [9]]
    encoded = encoded_of(texts, [[1]] * 4, {0: {0: 1, 5: 1}, 1: {1: 1}, 2: {2: 1}, 3: {3: 1}})
    encoded = with_contents(encoded, texts)
    function = prepared(InBatch(hard=True), encoded)
    whole = replace(batch(0, 1, 2, 3), mined=np.array([[6], [7], [4], [-1]], np.int32))
    offered = FilteredFunction(function, RelevantPairs(encoded), whole.mined)
    found = offered.sample(whole, 9, np.random.default_rng(0)).documents
    # Not its own positive, what reads as it or is relevant or reads so, nor what it has already.
    # Query 2 has 4, which reads as 1; query 3 is shown one of them.
    expected = [[1, 2, 3], [0, 2, 3, 6], [0, 3, 6, 7], [0, 1, 2, 6, 7]]
    assert [sorted(1 if d == 4 else d for d in row if d >= 0) for row in found.tolist()] == expected
    part = whole.part(np.array([2]))
    assert sorted(function.sample(part, 4, np.random.default_rng(0)).documents[0].tolist()) == expected[2]
    assert InBatch(hard=True).supply(4, 2) == 9
    assert InBatch().supply(4, 2) == 3


def test_what_reads_as_another_relevant_document_is_left_out(encoded_of):
    texts = [[1], [2], [3], [3]]
    encoded = with_contents(encoded_of(texts, [[1]] * 2, {0: {0: 1, 2: 1}, 1: {3: 1}}), texts)
    found = prepared(InBatch(), encoded).sample(batch(0, 3), 3, np.random.default_rng(0)).documents
    assert found.tolist() == [[-1, -1], [0, -1]] or [sorted(row) for row in found.tolist()] == [[-1, -1], [-1, 0]]
