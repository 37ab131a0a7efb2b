"""Scores of pairs, of documents that are alike, and ranks among all documents."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor

from pyrite.ranking import full_ranking, ranks
from pyrite.ranking.alike import digests, group_alike, tie_repeats
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.full_ranking import rank_all, rank_candidates
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.rankers.dssm import DSSM
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.match_pyramid import MatchPyramid
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.rankers.static import Static
from pyrite.ranking.ranks import ranks_in
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.texts import Texts
from tests.examples import few
from tests.ranking.conftest import TWINS
from tests.ranking.shaken import shake
from tests.ranking.trained import Lengths, generator, of_words

RANKERS = ["feed_forward", "match_pyramid"]


def ranker_of(kind: str, encoded: EncodedCollection) -> Ranker:
    if kind == "dssm":
        return DSSM(preset="tiny", buckets=60).start(RankerInputs(generator(1)))
    if kind == "lengths":
        return Lengths(step=3)
    ranker: Ranker = of_words(FeedForward if kind == "feed_forward" else MatchPyramid, len(encoded.idf))
    if isinstance(ranker, FeedForward):
        torch.nn.init.normal_(ranker.term_weights, generator=generator(2))
    return ranker


@torch.no_grad()
def one_by_one(ranker: Ranker, encoded: EncodedCollection, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Each pair alone, through `forward`."""
    scores = np.full(documents.shape, -np.inf, np.float32)
    for row, column in np.argwhere(documents >= 0):
        query = encoded.queries.take(queries[[row]])
        scores[row, column] = ranker(query, encoded.documents.take(documents[row, [column]]))[0, 0]
    return scores


@pytest.mark.parametrize("kind", RANKERS)
def test_scores_are_those_of_each_pair_alone(kind, sixty):
    ranker, queries = ranker_of(kind, sixty), np.array([3, 0, 6, 3])
    documents = np.random.default_rng(3).integers(-1, 60, (4, 17)).astype(np.int32)
    documents[2] = -1
    expected = one_by_one(ranker, sixty, queries, documents)
    np.testing.assert_allclose(score_candidates(ranker, sixty, queries, documents), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", RANKERS)
def test_chunks_change_nothing(kind, sixty, monkeypatch):
    ranker, queries = ranker_of(kind, sixty), np.arange(7)
    documents = np.random.default_rng(4).integers(-1, 60, (7, 9))
    whole = score_candidates(ranker, sixty, queries, documents)
    for pairs, represented in ((1, 1), (9, 20), (20, 9), (10_000, 27), (64, 10_000)):
        monkeypatch.setattr(ranker, "pairs", pairs)
        monkeypatch.setattr(ranker, "held", represented)
        np.testing.assert_allclose(score_candidates(ranker, sixty, queries, documents), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 4)])
def test_nothing_to_score(kind, shape, sixty):
    scores = score_candidates(ranker_of(kind, sixty), sixty, np.arange(shape[0]), np.full(shape, -1, np.int32))
    assert scores.shape == shape
    assert scores.dtype == np.float32
    assert (scores == -np.inf).all()


@pytest.mark.parametrize("kind", [*RANKERS, "dssm"])
def test_arrays_may_be_read_only(kind, sixty):
    """As they are when they come out of an object store."""
    ranker, queries, every = ranker_of(kind, sixty), np.arange(7), np.arange(60)
    documents = np.tile(np.arange(20, dtype=np.int32), (7, 1))
    scored = score_candidates(ranker, sixty, queries, documents)
    ranked = ranks_in(ranker, sixty, queries, documents, every)
    arrays = (sixty.document_key, sixty.documents.tokens, sixty.documents.offsets, sixty.queries.tokens)
    for array in (queries, documents, every, *arrays):
        array.flags.writeable = False
    np.testing.assert_array_equal(score_candidates(ranker, sixty, queries, documents), scored)
    np.testing.assert_array_equal(ranks_in(ranker, sixty, queries, documents, every), ranked)
    ranker(sixty.queries, Texts(sixty.documents.tokens, sixty.documents.offsets[:57])).sum().backward()


@pytest.fixture
def ranker(tiny_sources) -> Static:
    return (
        Static(preset="tiny")
        .start(RankerInputs(generator(0), tiny_sources.vectors.filled(np.random.default_rng(0))))
        .eval()
    )


def plain(ranker: Static, encoded: EncodedCollection, within: np.ndarray, depth: int) -> list[list[int]]:
    """Every document scored, sorted by score and then by id, both descending."""
    queries = np.arange(len(encoded.queries))
    scores = score_candidates(ranker, encoded, queries, np.broadcast_to(within, (len(queries), len(within))))
    return [within[np.lexsort((-encoded.document_key[within], -row))][:depth].tolist() for row in scores]


@pytest.mark.parametrize("block", [3, 100])
@pytest.mark.parametrize("depth", [1, 5, 12])
def test_blocks_give_what_sorting_gives(ranker, tiny_encoded, monkeypatch, block, depth):
    monkeypatch.setattr(full_ranking, "DOCUMENTS", block)
    monkeypatch.setattr(full_ranking, "SCORES", 7)
    queries, every = np.arange(len(tiny_encoded.queries)), np.arange(len(tiny_encoded.documents))
    found = rank_all(ranker, tiny_encoded, queries, depth)
    assert found.documents.tolist() == plain(ranker, tiny_encoded, every, depth)
    assert (np.diff(found.scores, axis=1) <= 0).all()
    some = rank_all(ranker, tiny_encoded, queries, 4, every[::3])
    assert some.documents.tolist() == plain(ranker, tiny_encoded, every[::3], 4)


def test_candidates_are_put_in_order_and_cut(ranker, tiny_encoded):
    queries = np.arange(2)
    found = rank_candidates(ranker, tiny_encoded, queries, np.array([[3, -1, 0, 7], [5, 2, 1, 0]]), 3)
    assert found.documents[1].tolist() == plain(ranker, tiny_encoded, np.array([0, 1, 2, 5]), 3)[1]
    assert set(found.documents[0].tolist()) == {0, 3, 7}
    assert rank_all(ranker, tiny_encoded, queries, 20).documents[:, 12:].max() == -1  # there are twelve


def test_a_score_that_is_no_number_ends_it(ranker, tiny_encoded):
    ranker.vectors.data[:] = float("nan")
    with pytest.raises(FloatingPointError):
        rank_all(ranker, tiny_encoded, np.arange(2), 3)


def brute_force(
    ranker: Ranker, encoded: EncodedCollection, queries: np.ndarray, wanted: np.ndarray, within: np.ndarray
) -> list[list[int]]:
    """Sort every list as trec_eval does and look the documents up. Of scores without rounding."""
    lists = np.tile(within, (len(queries), 1))
    scores = score_candidates(ranker, encoded, queries, lists) if lists.size else np.zeros(lists.shape)
    found = []
    for row, of_query in enumerate(wanted.tolist()):
        keyed = [(score, encoded.document_key[d], d) for score, d in zip(scores[row], within.tolist(), strict=True)]
        order = [document for _, _, document in sorted(keyed, reverse=True)]
        found.append([order.index(document) + 1 if document in order else 0 for document in of_query])
    return found


def assert_ranks_of(
    found: np.ndarray,
    ranker: Ranker,
    encoded: EncodedCollection,
    queries: np.ndarray,
    wanted: np.ndarray,
    within: np.ndarray,
) -> None:
    """Ranks are those of brute force, but for documents whose scores lie within rounding of each other."""
    if isinstance(ranker, Lengths):
        assert found.tolist() == brute_force(ranker, encoded, queries, wanted, within)
        return
    scores = score_candidates(ranker, encoded, queries, np.tile(within, (len(queries), 1)))
    rounding = 1e-5 * np.abs(scores).max()
    for row, of_query in enumerate(wanted.tolist()):
        for column, document in enumerate(of_query):
            if document not in within:
                assert found[row, column] == 0
                continue
            own = scores[row, within.tolist().index(document)]
            later = encoded.document_key[within] > encoded.document_key[document]
            twins = np.isin(within, TWINS) if document in TWINS else within == document
            ahead = (twins & later).sum()  # of documents alike the later id stands first, whatever the rounding
            least = (scores[row, ~twins] > own + rounding).sum()
            most = (scores[row, ~twins] >= own - rounding).sum()
            assert 1 + ahead + least <= found[row, column] <= 1 + ahead + most


KINDS = ["lengths", "dssm", "feed_forward", "match_pyramid"]


@pytest.mark.by_day(10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("block", "scores"), [(60, 1 << 24), (1, 1), (7, 20), (13, 13), (32, 100), (1 << 15, 120)])
def test_ranks_are_those_of_brute_force_with_trec_evals_ties(kind, block, scores, sixty, monkeypatch):
    monkeypatch.setattr(ranks, "SCORES", scores)
    ranker, queries = ranker_of(kind, sixty), np.array([2, 5, 0, 2])
    everything = np.tile(np.arange(60), (4, 1))
    found = ranks_in(ranker, sixty, queries, everything, np.arange(60), block)
    assert found.dtype == np.int64
    assert_ranks_of(found, ranker, sixty, queries, everything, np.arange(60))
    for row in found:
        if kind in ("lengths", "dssm"):  # others may tie or not by the block in which they score a document
            assert sorted(row.tolist()) == list(range(1, 61))
        by_key = sorted(TWINS, key=lambda document: sixty.document_key[document], reverse=True)
        assert row[by_key].tolist() == sorted(row[by_key].tolist())  # of documents that are alike the later id first
    if kind in ("lengths", "dssm"):
        assert found[0].tolist() == found[3].tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [4, 100])
def test_ranks_within_some_documents(kind, block, sixty):
    ranker, queries = ranker_of(kind, sixty), np.arange(7)
    within = np.array([0, 3, 4, 9, 11, 12, 30, 31, 59])
    wanted = np.array([[3, -1, 5], [-1, -1, -1], [59, 0, 12], [5, 6, 7], [4, 9, 30], [31, -1, 31], [12, 11, 59]])
    found = ranks_in(ranker, sixty, queries, wanted, within, block)
    assert_ranks_of(found, ranker, sixty, queries, wanted, within)
    assert found[[1, 3]].tolist() == [[0] * 3] * 2
    assert found[0, 1:].tolist() == [0, 0]
    assert found[5, 0] == found[5, 2]


@few(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=12),
    st.lists(st.integers(1, 12), max_size=4),
    st.data(),
    st.integers(1, 14),
    st.integers(1, 30),
)
def test_neither_blocks_nor_ties_matter(encoded_of, lengths, asked, data, block, scores):
    key = data.draw(st.permutations(range(len(lengths))))
    encoded = encoded_of([[1] * n for n in lengths], [[1] * n for n in asked] or [[1]], {}, key)
    within = np.array(sorted(data.draw(st.sets(st.integers(0, len(lengths) - 1)))), np.int64)
    rows = st.lists(st.integers(-1, len(lengths) - 1), min_size=2, max_size=2)
    wanted = np.array([data.draw(rows) for _ in asked], np.int64).reshape(len(asked), 2)
    queries = np.arange(len(asked))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "SCORES", scores)
        found = ranks_in(Lengths(step=3), encoded, queries, wanted, within, block)
    assert found.tolist() == brute_force(Lengths(step=3), encoded, queries, wanted, within)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_rank(kind, sixty):
    ranker, everything = ranker_of(kind, sixty), np.arange(60)
    for shape in ((0, 3), (2, 0), (0, 0)):
        assert ranks_in(ranker, sixty, np.arange(shape[0]), np.zeros(shape, np.int64), everything).shape == shape
    assert ranks_in(ranker, sixty, np.arange(2), np.array([[4], [-1]]), np.zeros(0, np.int64)).tolist() == [[0], [0]]


def test_scores_are_never_held_for_all_queries_and_documents(sixty, monkeypatch):
    held: list[int] = []
    score = ranks.products

    def counted(*given_ones: Any) -> Tensor:
        scores = score(*given_ones)
        held.append(scores.numel())
        return scores

    monkeypatch.setattr(ranks, "products", counted)
    monkeypatch.setattr(ranks, "SCORES", 30)
    ranks_in(ranker_of("dssm", sixty), sixty, np.arange(7), np.zeros((7, 1), np.int64), np.arange(60), 10)
    assert max(held) <= 30
    assert sum(held) == 7 * 60 + 7  # and each query's own


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
