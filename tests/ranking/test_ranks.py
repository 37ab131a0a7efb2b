from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor

from ranking import ranks
from ranking.encoding import EncodedCollection
from ranking.rankers.dssm import Dssm
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.match_pyramid import MatchPyramid
from ranking.rankers.ranker import Ranker
from ranking.ranks import ranks_in
from ranking.scoring import score_candidates
from tests.examples import few
from tests.ranking.conftest import TWINS
from tests.ranking.trained import Lengths, generator, of_words


def ranker_of(kind: str, encoded: EncodedCollection) -> Ranker:
    if kind == "dssm":
        return Dssm(generator(1), preset="tiny", buckets=60)
    if kind == "lengths":
        return Lengths(step=3)
    return of_words(FeedForward if kind == "feed_forward" else MatchPyramid, len(encoded.idf))


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
        found = ranks_in(ranker, sixty, np.arange(shape[0]), np.zeros(shape, np.int64), everything)
        assert found.shape == shape
    nowhere = ranks_in(ranker, sixty, np.arange(2), np.array([[4], [-1]]), np.zeros(0, np.int64))
    assert nowhere.tolist() == [[0], [0]]


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


@pytest.mark.parametrize("blocks", [3, 100])
def test_a_ranker_that_scores_nan_is_an_error(blocks, sixty):
    with pytest.raises(FloatingPointError, match="nan"):
        ranks_in(Lengths(float("nan"), step=3), sixty, np.arange(2), np.zeros((2, 1), np.int64), np.arange(60), blocks)


def test_arrays_may_be_read_only(sixty):
    """As they are when they come out of an object store."""
    queries, wanted, within = np.arange(7), np.tile(np.arange(5), (7, 1)), np.arange(60)
    ranker = ranker_of("dssm", sixty)
    expected = ranks_in(ranker, sixty, queries, wanted, within)
    arrays = (queries, wanted, within, sixty.document_key, sixty.documents.tokens, sixty.documents.offsets)
    for array in arrays:
        array.flags.writeable = False
    np.testing.assert_array_equal(ranks_in(ranker, sixty, queries, wanted, within), expected)
