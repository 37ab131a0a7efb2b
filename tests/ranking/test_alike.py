"""Tests of `ranking.alike`, and of scores of documents that are alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ranking.alike import digests, group_alike, tie_repeats
from ranking.encoding import EncodedCollection
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import Candidates
from ranking.ranked_lists import RankedLists
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.match_pyramid import MatchPyramid
from ranking.ranks import ranks_in
from ranking.scoring import score_candidates
from ranking.texts import Texts
from tests.ranking.shaken import shake

TWINS = (3, 8, 20, 21, 33)


@pytest.fixture
def encoded(encoded_of) -> EncodedCollection:
    """Forty documents, those of `TWINS` alike; three queries, of which each finds one twin relevant."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, 50, rng.integers(1, 60)).tolist() for _ in range(40)]
    for twin in TWINS:
        documents[twin] = [7, 8, 9]
    queries = [rng.integers(1, 50, 5).tolist() for _ in range(3)]
    grades = {0: {3: 1, 11: 1}, 1: {20: 1}, 2: {33: 1, 5: 1}}
    return encoded_of(documents, queries, grades, rng.permutation(40).tolist())


def feed_forward() -> FeedForward:
    vectors = np.random.default_rng(2).normal(size=(50, 12)).astype(np.float32)
    return FeedForward(vectors, torch.Generator().manual_seed(1), preset="tiny")


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), max_size=12), st.integers(1, 4) | st.none())
def test_equal_numbers_are_equal_texts(texts, reach):
    found = digests(Texts.of(texts), np.arange(len(texts)), reach)
    for one, text in zip(found, texts, strict=True):
        for other, another in zip(found, texts, strict=True):
            assert (one == other) == (text[:reach] == another[:reach])
    first, number, repeated = group_alike(found)
    cut = [tuple(text[:reach]) for text in texts]
    assert [cut[place] for place in first] == list(dict.fromkeys(cut))
    assert [cut[first[each]] for each in number] == cut
    assert repeated.tolist() == [cut.count(cut[place]) > 1 for place in first]


def test_texts_of_other_categories_are_not_alike():
    texts = replace(Texts.of([[1], [1], [1]]), labels=np.array([[0, 1], [0, -1], [0, 1]], np.int32))
    one, other, same = digests(texts, np.arange(3))
    assert one == same != other


def test_repeats_get_their_highest_score():
    scores = np.array([[1, 2, 3, 0], [4, 5, 6, -np.inf]], np.float32)
    places = np.array([[0, 1, 0, 0], [0, 0, 1, 0]])
    tie_repeats(scores, places, (places == 0) & np.isfinite(scores))
    assert scores.tolist() == [[3, 2, 3, 3], [5, 5, 6, -np.inf]]


@pytest.mark.parametrize("kind", [FeedForward, MatchPyramid])
def test_documents_alike_have_equal_scores_on_any_processor(kind, encoded, monkeypatch):
    vectors = np.random.default_rng(2).normal(size=(50, 12)).astype(np.float32)
    ranker = kind(vectors, torch.Generator().manual_seed(1), preset="tiny")
    lists = np.stack([np.random.default_rng(seed).permutation(40) for seed in range(3)]).astype(np.int32)
    lists[1, :4] = -1
    steady = score_candidates(ranker, encoded, np.arange(3), lists)
    shake(monkeypatch)
    for pairs in (1, 40, 80, kind.pairs):
        monkeypatch.setattr(ranker, "pairs", pairs)
        scores = score_candidates(ranker, encoded, np.arange(3), lists)
        np.testing.assert_allclose(scores, steady, rtol=1e-4, atol=1e-5)
        for row in range(3):
            assert len(set(scores[row, np.isin(lists[row], TWINS)].tolist())) == 1
    assert (scores != steady).any(), "nothing was shaken"


def test_texts_that_differ_behind_what_is_read_are_alike(encoded_of, monkeypatch):
    shake(monkeypatch)
    encoded = encoded_of([[4, 5, 6, 7], [9, 2], [4, 5, 6, 8]], [[5, 9]], {})
    vectors = np.random.default_rng(2).normal(size=(10, 12)).astype(np.float32)
    ranker = MatchPyramid(vectors, torch.Generator().manual_seed(1), preset="tiny", max_document=3)
    monkeypatch.setattr(ranker, "pairs", 1)
    scores = score_candidates(ranker, encoded, np.zeros(1, int), np.arange(3)[None])[0]
    assert scores[0] == scores[2]


def test_a_figure_is_the_same_on_two_processors(encoded, monkeypatch):
    """Two copies of a text, one of them judged relevant, keep their places in the ranking: the later id first."""
    rng, queries = np.random.default_rng(5), np.arange(3)
    lists = np.stack([rng.permutation(40) for _ in queries]).astype(np.int32)
    candidates = Candidates(queries, lists, RankedLists(lists, np.zeros(lists.shape, np.float32)), 40)
    evaluation = Evaluation(encoded, candidates, ["AP@40", "RR@40", "nDCG@10"])
    wanted = np.array([[3, 11], [20, -1], [33, 5]])
    steady, ranks = evaluation(feed_forward()), ranks_in(feed_forward(), encoded, queries, wanted, np.arange(40))
    shake(monkeypatch)
    for measure, values in evaluation(feed_forward()).items():
        assert values.tolist() == steady[measure].tolist()
    for block in (3, 7, 40):
        found = ranks_in(feed_forward(), encoded, queries, wanted, np.arange(40), block)
        assert found.tolist() == ranks.tolist()
