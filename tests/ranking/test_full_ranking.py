"""Whole collections ranked block by block, against scoring and sorting everything."""

import numpy as np
import pytest

from ranking import full_ranking
from ranking.encoding import EncodedCollection
from ranking.full_ranking import rank_all, rank_candidates
from ranking.rankers.static import Static
from ranking.scoring import score_candidates
from tests.ranking.trained import generator


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
