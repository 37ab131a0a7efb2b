from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.interpolation import WEIGHTS, best_weight, interpolate
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.ranked_lists import RankedLists

DOCUMENTS = np.array([[0, 1, 2], [2, 0, -1]], np.int32)
FIRST_STAGE = np.array([[6, 4, 2], [5, 3, 0]], np.float32)
"""Scaled 1, .5, 0 and 1, 0."""
RANKER = np.array([[1, 3, 2], [-7, 1, 99]], np.float32)
"""Scaled 0, 1, .5 and 0, 1: what scores no document counts for nothing."""


@pytest.fixture
def evaluation(encoded_of) -> Evaluation:
    encoded = encoded_of([[2], [3], [4]], [[2], [3]], {0: {1: 1}, 1: {2: 1}})
    return Evaluation(encoded, Candidates(np.arange(2), DOCUMENTS, RankedLists(DOCUMENTS, FIRST_STAGE), 3), ["RR"])


def told(scores: NDArray[np.float32], evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(evaluation, "scores", lambda ranker: scores)
    return None  # a ranker that is never asked


def test_scores_are_added_up_on_one_scale(evaluation):
    assert interpolate(evaluation, RANKER, 0.0).tolist() == [[1, 0.5, 0], [1, 0, 0]]
    assert interpolate(evaluation, RANKER, 1.0).tolist() == [[0, 1, 0.5], [0, 1, 0]]
    mixed = interpolate(evaluation, RANKER, 0.3)
    assert mixed == pytest.approx(np.array([[0.7, 0.65, 0.15], [0.7, 0.3, 0]]))
    assert mixed.dtype == np.float32


def test_equal_scores_say_nothing(evaluation):
    equal = np.full((2, 3), 0.1, np.float32)
    assert interpolate(evaluation, equal, 0.5) == pytest.approx(np.array([[0.5, 0.25, 0], [0.5, 0, 0]]))


def test_the_weight_is_the_best_on_these_queries(evaluation, monkeypatch):
    # Of query 0 document 1 is relevant: .5 + w/2 against 1 - w, first from w > 1/3. Of query 1 document 2 is: 1 - w
    # against w, first below 1/2, and at 1/2 by its greater id. So .4 and .5 are right for both; .4 is the least.
    assert best_weight(evaluation, told(RANKER, evaluation, monkeypatch)) == 0.4
    at = {weight: evaluation.of_scores(interpolate(evaluation, RANKER, weight))["RR"].tolist() for weight in WEIGHTS}
    assert at[0.3] == [0.5, 1.0]
    assert at[0.4] == at[0.5] == [1.0, 1.0]
    assert at[0.6] == [1.0, 0.5]


def test_a_ranker_that_adds_nothing_has_no_weight_and_one_that_is_right_all(evaluation, monkeypatch):
    wrong, right = np.array([[1, 0, 0], [0, 1, 0]], np.float32), np.array([[0, 1, 0], [9, 0, 0]], np.float32)
    assert best_weight(evaluation, told(wrong, evaluation, monkeypatch)) == 0.0
    assert best_weight(evaluation, told(right, evaluation, monkeypatch)) == 0.4  # from where both are right
    assert best_weight(evaluation, told(np.zeros((0, 3), np.float32), evaluation, monkeypatch)) is None


def test_lists_in_another_order_are_matched_by_document(encoded_of):
    encoded = encoded_of([[2], [3], [4]], [[2]], {0: {1: 1}})
    lists = RankedLists(np.array([[2, 0, -1]], np.int32), np.array([[8, 4, 0]], np.float32))
    candidates = Candidates(np.arange(1), np.array([[0, 1, 2]], np.int32), lists, 3)
    mixed = interpolate(Evaluation(encoded, candidates, ["RR"]), np.zeros((1, 3), np.float32), 0.0)
    assert mixed.tolist() == [[0.0, 0.0, 1.0]]  # the one that was not ranked is as low as the last that was


def test_a_query_without_candidates_is_passed_over(encoded_of):
    encoded = encoded_of([[2], [3]], [[2]], {0: {1: 1}})
    none = np.full((1, 2), -1, np.int32)
    lists = RankedLists(none, np.full((1, 2), -np.inf, np.float32))
    evaluation = Evaluation(encoded, Candidates(np.arange(1), none, lists, 2), ["RR"])
    with np.errstate(all="raise"):
        assert interpolate(evaluation, np.zeros((1, 2), np.float32), 0.5).tolist() == [[0.0, 0.0]]


def test_a_whole_collection_has_no_lists(encoded_of):
    encoded = encoded_of([[2], [3], [4]], [[2]], {0: {1: 1}})
    lists = RankedLists(np.array([[2, 0]], np.int32), np.array([[8, 4]], np.float32))
    whole: Any = Evaluation(encoded, Candidates(np.arange(1), None, lists, None), ["RR"])
    assert best_weight(whole, whole) is None
