import numpy as np

from ranking.ranked_lists import RankedLists, stack_lists


def lists() -> RankedLists:
    return stack_lists([(np.array([4, 2, 0]), np.array([3.0, 2.0, 1.0])), (np.array([], int), np.array([]))], 4)


def test_ragged_lists_are_made_rectangular_and_cut():
    stacked = lists()
    assert stacked.documents.tolist() == [[4, 2, 0, -1], [-1] * 4]
    assert stacked.scores.tolist() == [[3, 2, 1, -np.inf], [-np.inf] * 4]
    assert (stacked.documents.dtype, stacked.scores.dtype) == (np.int32, np.float32)
    assert stacked.counts.tolist() == [3, 0]
    assert stack_lists([(np.array([4, 2]), np.array([3.0, 2.0]))], 1).documents.tolist() == [[4]]
    assert stack_lists([], 3).documents.shape == (0, 3)


def test_keep_packs_to_the_left_in_the_same_order():
    kept = lists().keep(np.array([[True, False, True, True], [True] * 4]))
    assert kept.documents.tolist() == [[4, 0, -1, -1], [-1] * 4]
    assert kept.scores.tolist() == [[3, 1, -np.inf, -np.inf], [-np.inf] * 4]
    assert (kept.documents.dtype, kept.scores.dtype) == (np.int32, np.float32)


def test_take_takes_queries():
    assert lists().take(np.array([1, 0, 0])).counts.tolist() == [0, 3, 3]


def test_without_relevant(encoded_of):
    judgements = encoded_of([[1]] * 5, [[1]] * 2, {0: {2: 1, 4: 0, 3: 1}, 1: {0: 1}}).judgements
    assert lists().without_relevant(judgements).documents.tolist() == [[4, 0, -1, -1], [-1] * 4]
