import numpy as np
import pytest
import torch

from ranking import full_ranking
from ranking.encoding import EncodedCollection
from ranking.full_ranking import rank_all, rank_candidates
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.match_pyramid import MatchPyramid
from ranking.rankers.ranker import Ranker
from ranking.rankers.static import Static
from ranking.scoring import score_candidates
from ranking.texts import Texts
from tests.ranking.trained import generator, of_words

RANKERS = [FeedForward, MatchPyramid]


def ranker_of(kind: type[Ranker], encoded: EncodedCollection) -> Ranker:
    ranker = of_words(kind, len(encoded.idf))
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
        parts = score_candidates(ranker, sixty, queries, documents)
        np.testing.assert_allclose(parts, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", RANKERS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 4)])
def test_nothing_to_score(kind, shape, sixty):
    documents = np.full(shape, -1, np.int32)
    scores = score_candidates(ranker_of(kind, sixty), sixty, np.arange(shape[0]), documents)
    assert scores.shape == shape
    assert scores.dtype == np.float32
    assert (scores == -np.inf).all()


@pytest.mark.parametrize("kind", RANKERS)
def test_arrays_may_be_read_only(kind, sixty):
    """As they are when they come out of an object store."""
    queries, documents = np.arange(7), np.tile(np.arange(20, dtype=np.int32), (7, 1))
    ranker = ranker_of(kind, sixty)
    expected = score_candidates(ranker, sixty, queries, documents)
    for array in (queries, documents, sixty.documents.tokens, sixty.documents.offsets, sixty.queries.tokens):
        array.flags.writeable = False
    np.testing.assert_array_equal(score_candidates(ranker, sixty, queries, documents), expected)
    scores = ranker(sixty.queries, Texts(sixty.documents.tokens, sixty.documents.offsets[:57]))
    scores.sum().backward()


@pytest.fixture
def ranker(tiny_sources) -> Static:
    vectors = tiny_sources.vectors.filled(np.random.default_rng(0))
    return Static(vectors, generator(0), preset="tiny").eval()


def plain(ranker: Static, encoded: EncodedCollection, within: np.ndarray, depth: int) -> list[list[int]]:
    """Every document scored, sorted by score and then by id, both descending."""
    queries = np.arange(len(encoded.queries))
    scores = score_candidates(ranker, encoded, queries, np.broadcast_to(within, (len(queries), len(within))))
    keys = encoded.document_key[within]
    return [within[np.lexsort((-keys, -row))][:depth].tolist() for row in scores]


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
    documents = np.array([[3, -1, 0, 7], [5, 2, 1, 0]])
    found = rank_candidates(ranker, tiny_encoded, queries, documents, 3)
    assert found.documents[1].tolist() == plain(ranker, tiny_encoded, np.array([0, 1, 2, 5]), 3)[1]
    assert set(found.documents[0].tolist()) == {0, 3, 7}
    assert rank_all(ranker, tiny_encoded, queries, 20).documents[:, 12:].max() == -1  # there are twelve


def test_a_score_that_is_no_number_ends_it(ranker, tiny_encoded):
    ranker.vectors.data[:] = float("nan")
    with pytest.raises(FloatingPointError):
        rank_all(ranker, tiny_encoded, np.arange(2), 3)
