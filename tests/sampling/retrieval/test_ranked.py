import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranking.ranked_lists import stack_lists
from sampling.retrieval.bm25 import Bm25Function
from sampling.retrieval.ranked import draw_positions
from tests.sampling.batches import batch_of


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 8), st.integers(0, 2**32))
def test_places_are_distinct_and_inside(counts, count, seed):
    places = draw_positions(np.array(counts), count, np.random.default_rng(seed))
    assert places.shape == (len(counts), count)
    for row, there in zip(places, counts, strict=True):
        drawn = row[:there].tolist()
        assert len(set(drawn)) == len(drawn) == min(count, there)
        assert all(0 <= place < there for place in drawn)


@pytest.mark.parametrize(("there", "count"), [(7, 1), (7, 3), (7, 6), (5, 5)])
def test_every_set_of_places_is_as_probable_as_another(there, count):
    places = draw_positions(np.full(40_000, there), count, np.random.default_rng(4))
    sets, frequencies = np.unique((1 << places).sum(axis=1), return_counts=True)
    assert len(sets) == len([n for n in range(2**there) if n.bit_count() == count])
    assert len(sets) == 1 or chisquare(frequencies).pvalue > 0.01


def test_places_of_long_lists_stay_inside():
    class AlmostOne:
        def random(self, shape: tuple[int, int]) -> np.ndarray:
            return np.full(shape, np.nextafter(1, 0))

    for there in (3, 1000, 2**31 - 1, 2**40 + 1):
        places = draw_positions(np.array([there]), 2, AlmostOne())
        assert places.max() == there - 1


def ready() -> Bm25Function:
    function = Bm25Function(depth=5)
    documents = [np.array([9, 3, 5, 1, 7]), np.array([4, 2]), np.array([], int)]
    scores = [np.array([5.0, 4, 3, 2, 1]), np.array([2.0, 1]), np.array([])]
    function.prepare(None, stack_lists(list(zip(documents, scores, strict=True)), 5))
    return function


def test_samples_are_distinct_documents_of_the_list_with_their_scores():
    function, rng = ready(), np.random.default_rng(0)
    score = {9: 5, 3: 4, 5: 3, 1: 2, 7: 1}
    for _ in range(50):
        candidates = function.sample(batch_of(0, 1, 2), 3, rng)
        first = candidates.documents[0].tolist()
        assert len(set(first)) == 3
        assert candidates.scores[0].tolist() == [score[document] for document in first]
        assert sorted(candidates.documents[1]) == [-1, 2, 4]
        assert candidates.documents[1, 2] == -1
        assert candidates.scores[1, 2] == -np.inf
        assert (candidates.documents[2] == -1).all()
        assert (candidates.documents.dtype, candidates.scores.dtype) == (np.int32, np.float32)


def test_samples_are_uniform():
    candidates = ready().sample(batch_of(np.zeros(20_000, np.int64)), 2, np.random.default_rng(1))
    frequencies = np.unique(candidates.documents, return_counts=True)[1]
    assert len(frequencies) == 5
    assert np.abs(frequencies / 20_000 - 2 / 5).max() < 0.015


def test_the_top_is_the_lists_head():
    candidates = ready().top(batch_of(1, 0, 2), 4, np.random.default_rng(0))
    assert candidates.documents.tolist() == [[4, 2, -1, -1], [9, 3, 5, 1], [-1] * 4]
    assert ready().top(batch_of(0), 7, np.random.default_rng(0)).documents.tolist() == [[9, 3, 5, 1, 7, -1, -1]]
    assert ready().top(batch_of(0), 0, np.random.default_rng(0)).documents.shape == (1, 0)


def test_a_ranked_function_needs_lists(encoded_of):
    with pytest.raises(ValueError, match="received no lists"):
        Bm25Function().prepare(encoded_of([[1]], [[1]], {}), None)
