"""An inverted index by hand, and its search: lists and scores of plain sums, however much is left out."""

import math

import numpy as np
import pytest

from ranking import postings_kernels
from ranking.counted_postings import CountedPostings, idf_of, weigh
from ranking.postings import Postings, largest_weights, search_postings
from ranking.terms import Bm25Options

SIZE = 20_000
NONE = np.zeros((0, 0), np.int32)


def by_chance(seed: int = 0) -> Postings:
    """Terms from in every document to in a few, the rarer the heavier, many weights equal."""
    rng = np.random.default_rng(seed)
    documents, weights = [], []
    for share in (1.0, 0.9, 0.5, 0.2, 0.1, 0.02, 0.002, 0.0002, 0.0):
        documents.append(np.flatnonzero(rng.random(SIZE) < share).astype(np.int32))
        tenths = rng.integers(1, 4, len(documents[-1])) / 10
        weights.append(np.float32(tenths * (0.01 - np.log(max(share, 1e-5)))))
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in documents])]).astype(np.int64)
    together = np.concatenate(weights)
    return Postings(offsets, np.concatenate(documents), together, largest_weights(offsets, together), SIZE)


def plainly(index: Postings, query: np.ndarray) -> np.ndarray:
    """The score of every document."""
    scores = np.zeros(SIZE, np.float32)
    for term in query:
        own = slice(index.offsets[term], index.offsets[term + 1])
        scores[index.documents[own]] += index.weights[own]
    return scores


@pytest.mark.by_day(2)
@pytest.mark.parametrize("depth", [0, 1, 3, 20, 100])
def test_lists_and_scores_are_those_of_plain_sums_to_the_bit(depth):
    index, rng = by_chance(), np.random.default_rng(depth)
    queries = [rng.integers(0, 9, rng.integers(0, 8)) for _ in range(60)]
    pairs = rng.integers(-1, SIZE, (60, 5)).astype(np.int32)
    documents, scores, of_pairs = search_postings(index, queries, depth, pairs, 1)
    for number, query in enumerate(queries):
        every = plainly(index, query)
        order = np.lexsort((np.arange(SIZE), -every))[:depth]
        order = order[every[order] > 0]
        assert documents[number, : len(order)].tolist() == order.tolist()
        assert (documents[number, len(order) :] == -1).all()
        assert scores[number, : len(order)].tobytes() == every[order].tobytes()
        expected = np.where(pairs[number] < 0, np.float32(-np.inf), every[pairs[number]])
        assert of_pairs[number].tobytes() == expected.tobytes()


def test_documents_that_cannot_come_into_the_list_are_left_out():
    index, score, touched = by_chance(), np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32)
    index_of = index.offsets, index.documents, index.weights, index.bounds
    heap = np.zeros(10, np.float32), np.zeros(10, np.int32)
    query = np.array([0, 1, 5, 2])  # one of fifty, and three that most documents have
    count = postings_kernels._candidates(*index_of, query, score, touched, *heap)
    every = plainly(index, query)
    best = np.lexsort((np.arange(SIZE), -every))[:10]
    assert 10 <= count < 1000
    assert set(best.tolist()) <= set(touched[:count].tolist())
    assert not score.any()  # as the next query needs it


def test_bounds_by_hand():
    offsets = np.array([0, 2, 2, 3, 3])
    assert largest_weights(offsets, np.array([1, 3, 2], np.float32)).tolist() == [3, 0, 2, 0]
    assert largest_weights(np.zeros(3, np.int64), np.zeros(0, np.float32)).tolist() == [0, 0]


def test_no_query_and_no_term():
    documents, scores, of_pairs = search_postings(by_chance(), [], 4, NONE, 2)
    assert documents.shape == scores.shape == (0, 4)
    assert of_pairs.shape == (0, 0)
    nothing = search_postings(by_chance(), [np.zeros(0, np.int64)], 2, np.array([[3]], np.int32), 2)
    assert nothing[0].tolist() == [[-1, -1]]
    assert nothing[2].tolist() == [[0]]


def counted(chunks: list[list[list[int]]], known: int) -> list[np.ndarray]:
    postings = CountedPostings()
    for texts in chunks:
        flat = np.array([term for text in texts for term in text], np.int32)
        postings.add(flat, np.array([len(text) for text in texts]), known)
    return list(postings.take(known))


def test_postings_by_hand_from_one_chunk_and_from_several():
    texts = [[1, 0, 1], [], [2, 1], [9, 1, 9], [0]]
    for chunks in ([texts], [texts[:2], texts[2:3], texts[3:]], [[], texts]):
        offsets, documents, counts, lengths = counted(chunks, 3)
        assert offsets.tolist() == [0, 2, 5, 6]
        assert documents.tolist() == [0, 4, 0, 2, 3, 2]
        assert counts.tolist() == [1, 1, 2, 1, 1, 1]
        assert lengths.tolist() == [3, 0, 2, 3, 1]  # terms that are not counted add to the length


@pytest.mark.nightly
def test_a_term_that_occurs_more_often_than_sixteen_bits_hold():
    _, _, counts, _ = counted([[[0] * 70_000, [0]]], 1)
    assert counts.tolist() == [70_000, 1]


def test_no_documents_and_no_terms():
    assert [len(array) for array in counted([], 2)] == [3, 0, 0, 0]
    assert [len(array) for array in counted([[[5]]], 0)] == [1, 0, 0, 1]


def test_weights_by_hand():
    offsets, documents, counts, lengths = counted([[[0, 0, 1], [1]]], 2)
    idf = idf_of(2, np.diff(offsets))
    assert idf.tolist() == pytest.approx([math.log(2), math.log(1 + 0.5 / 2.5)])
    weigh(offsets, documents, counts, lengths, 2.0, idf, Bm25Options(0.9, 0.4), counts)  # in place
    long, short = 0.9 * (0.6 + 0.4 * 3 / 2), 0.9 * (0.6 + 0.4 * 1 / 2)
    expected = [idf[0] * 2 / (2 + long), idf[1] / (1 + long), idf[1] / (1 + short)]
    np.testing.assert_allclose(counts, expected, rtol=1e-6)
