"""Tests of `ranking.alike`, and of scores of documents that are alike."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.alike import digests, group_alike, tie_repeats
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import Candidates
from ranking.ranked_lists import RankedLists
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.match_pyramid import MatchPyramid
from ranking.ranks import ranks_in
from ranking.scoring import score_candidates
from ranking.texts import Texts
from tests.ranking.conftest import TWINS
from tests.ranking.shaken import shake
from tests.ranking.trained import of_words


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
def test_documents_alike_have_equal_scores_on_any_processor(kind, sixty, monkeypatch):
    ranker = of_words(kind, 50)
    lists = np.stack([np.random.default_rng(seed).permutation(60) for seed in range(3)]).astype(np.int32)
    lists[1, :4] = -1
    steady = score_candidates(ranker, sixty, np.arange(3), lists)
    shake(monkeypatch)
    for pairs in (1, 60, 120, kind.pairs):
        monkeypatch.setattr(ranker, "pairs", pairs)
        scores = score_candidates(ranker, sixty, np.arange(3), lists)
        np.testing.assert_allclose(scores, steady, rtol=1e-4, atol=1e-5)
        for row in range(3):
            assert len(set(scores[row, np.isin(lists[row], TWINS)].tolist())) == 1
    assert (scores != steady).any(), "nothing was shaken"


def test_texts_that_differ_behind_what_is_read_are_alike(encoded_of, monkeypatch):
    shake(monkeypatch)
    encoded = encoded_of([[4, 5, 6, 7], [9, 2], [4, 5, 6, 8]], [[5, 9]], {})
    ranker = of_words(MatchPyramid, 10, max_document=3)
    monkeypatch.setattr(ranker, "pairs", 1)
    scores = score_candidates(ranker, encoded, np.zeros(1, int), np.arange(3)[None])[0]
    assert scores[0] == scores[2]


def test_a_figure_is_the_same_on_two_processors(sixty, monkeypatch):
    """Two copies of a text, one of them judged relevant, keep their places in the ranking: the later id first."""
    rng, queries, ranker = np.random.default_rng(5), np.arange(3), of_words(FeedForward, 50)
    lists = np.stack([rng.permutation(60) for _ in queries]).astype(np.int32)
    candidates = Candidates(queries, lists, RankedLists(lists, np.zeros(lists.shape, np.float32)), 60)
    evaluation = Evaluation(sixty, candidates, ["AP@60", "RR@60", "nDCG@10"])
    wanted = np.array([[3, 13], [31, -1], [58, 5]])
    steady, ranks = evaluation(ranker), ranks_in(ranker, sixty, queries, wanted, np.arange(60))
    shake(monkeypatch)
    for measure, values in evaluation(ranker).items():
        assert values.tolist() == steady[measure].tolist()
    for block in (3, 7, 60):
        assert ranks_in(ranker, sixty, queries, wanted, np.arange(60), block).tolist() == ranks.tolist()
