import math

import numpy as np
import pytest

from ranking.counted_postings import CountedPostings, idf_of, weigh
from ranking.terms import Bm25Options


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
