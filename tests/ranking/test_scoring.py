import numpy as np
import pytest
import torch

from ranking.encoding import EncodedCollection
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.match_pyramid import MatchPyramid
from ranking.rankers.ranker import Ranker
from ranking.scoring import score_candidates
from ranking.texts import Texts

RANKERS = [FeedForward, MatchPyramid]


def ranker_of(kind: type[Ranker], encoded: EncodedCollection) -> Ranker:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(len(encoded.idf), 12)).astype(np.float32)
    vectors[0] = 0
    ranker = kind(vectors, torch.Generator().manual_seed(1), preset="tiny")
    if isinstance(ranker, FeedForward):
        with torch.no_grad():
            ranker.term_weights.copy_(torch.from_numpy(rng.normal(size=len(vectors)).astype(np.float32)))
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


def test_a_collection_of_one_document(encoded_of):
    encoded = encoded_of([[1, 2]], [[3], [1]], {})
    ranker = ranker_of(FeedForward, encoded)
    scores = score_candidates(ranker, encoded, np.arange(2), np.zeros((2, 1), np.int32))
    expected = one_by_one(ranker, encoded, np.arange(2), np.zeros((2, 1), np.int32))
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


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
