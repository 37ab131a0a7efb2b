"""Tests of `pyrite.sampling.query_features`: hand-worked features, and where queries are split."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.sampling.guard import Guard, negatives_lists
from pyrite.sampling.query_features import QuerySplit, list_features
from pyrite.sampling.retrieval.bm25 import Bm25Function
from tests.sampling.test_contracts import random_and_bm25, ready, training_of

NONE = -np.inf


def test_rank_and_gap_of_the_first_relevant_document():
    documents = np.array([[5, 1, 2, 3], [1, 2, 3, 4], [1, 2, -1, -1], [7, -1, -1, -1]], np.int32)
    scores = np.array([[9, 8, 6, 5], [4, 3, 2, 1], [3, 1, NONE, NONE], [2, NONE, NONE, NONE]], np.float32)
    relevant = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0]], bool)
    features = list_features(RankedLists(documents, scores), relevant, ~relevant & (documents >= 0), depth=3)
    # The second one's relevant document is at rank 4 of a list of 3; the last list has no other document.
    assert features["positive_rank"].tolist() == [3, 4, 1, 1]
    assert features["score_gap"].tolist() == [-3, NONE, 2, np.inf]
    nothing = relevant[:, :0]
    features = list_features(RankedLists(documents[:, :0], scores[:, :0]), nothing, nothing, depth=3)
    assert features["positive_rank"].tolist() == [4] * 4


def test_lists_carry_what_they_were_before_relevant_documents_went(tiny_sources):
    function, relevant = Bm25Function(depth=4), tiny_sources.encoded.judgements
    lists = negatives_lists(function, tiny_sources, Guard())[0]
    assert set(lists.features) == {"positive_rank", "score_gap"}
    raw = function.rank(tiny_sources)
    among = relevant.are_relevant(np.arange(len(raw)), raw.documents)
    for query in range(len(raw)):
        first = next((rank for rank in range(4) if among[query, rank]), 4)
        assert lists.features["positive_rank"][query] == first + 1
    assert len(np.unique(lists.features["score_gap"])) > 1
    guarded = negatives_lists(function, tiny_sources, Guard(relative=0.05))[0]
    assert np.isfinite(guarded.features["guard_margin"]).any()
    assert (guarded.features["positive_rank"] == lists.features["positive_rank"]).all()


def split_of(values: list[float], quantile: float) -> list[bool]:
    lists = RankedLists(np.zeros((0, 0), np.int32), np.zeros((0, 0), np.float32), {"score_gap": np.float32(values)})
    training: Any = SimpleNamespace(examples=SimpleNamespace(queries=np.arange(len(values))))
    split = QuerySplit("score_gap", quantile)
    split.start_run({"bm25": SimpleNamespace(lists=lists, depth=9)}, training)
    return split.is_below.tolist()


def test_the_cut_is_the_possible_one_nearest_to_the_quantile():
    assert split_of([3, 1, 2, 4], 0.5) == [False, True, True, False]
    assert split_of([3, 1, 2, 4], 0.25) == [False, True, False, False]
    assert split_of([1, 1, 1, 5, NONE], 0.3) == [False] * 4 + [True]
    assert split_of([1, 1, 1, 5], 0.5) == [True, True, True, False]  # more than half are equal
    assert split_of([1, 1, 1, 5], 0.01) == [True, True, True, False]  # neither side is empty
    with pytest.raises(BadInput, match="the same for all queries"):
        split_of([2, 2], 0.5)


def test_equal_ranks_are_ordered_by_their_gap(tiny_sources):
    training, function = training_of(tiny_sources), ready(Bm25Function(), tiny_sources)
    features = function.lists.features
    assert (features["positive_rank"] == 1).all()
    split = QuerySplit("positive_rank", 0.5)
    split.start_run({"bm25": function}, training)
    below, queries = split.is_below, np.unique(training.examples.queries)
    assert features["score_gap"][queries][below[queries]].min() > features["score_gap"][queries][~below[queries]].max()


def test_the_margin_splits_each_batch(tiny_sources):
    training, functions = training_of(tiny_sources), random_and_bm25(tiny_sources)
    split = QuerySplit("margin", 0.5)
    split.start_run(functions, training)
    batch = training.examples
    below = split.below(batch, training)
    assert below.sum() == round(len(batch) / 2)
    head = functions["bm25"].top(batch, 16, np.random.default_rng(0)).documents
    scores = training.score(batch.queries, np.concatenate([batch.positives[:, None], head], 1))
    margins = scores[:, 0] - scores[:, 1:].max(1)
    assert margins[below].max() <= margins[~below].min()


def test_a_run_without_such_lists_is_bad_input(tiny_sources):
    training, functions = training_of(tiny_sources), random_and_bm25(tiny_sources)
    with pytest.raises(BadInput, match="no function of random has lists"):
        QuerySplit("positive_rank", 0.5).start_run({"random": functions["random"]}, training)
    with pytest.raises(BadInput, match=r"guard_margin needs a guard; give sampling\.guard"):
        QuerySplit("guard_margin", 0.5).check(functions, guarded=False)
    with pytest.raises(BadInput, match="have no guard_margin; choose another"):
        QuerySplit("guard_margin", 0.5).start_run({"bm25": functions["bm25"]}, training)
